//! Block devices and files that the kernel itself exports to others: NVMe and SCSI targets, USB mass
//! storage gadgets and RDMA network block devices write to them without a descriptor of any program, and
//! most of them without claiming the device.
//!
//! The exports are configured through configfs, which names the devices and files. Nothing is known of
//! exports if configfs is not mounted. Exports that claim the device (iblock, DRBD, bcache, md, device
//! mapper) are found by `O_EXCL` anyway.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::device::{DeviceNumber, System, names_in};
use super::inode::NodeId;
use super::writers::WriteTargets;

/// Describes the export of one of these devices and files; `None` if none is exported.
///
/// # Errors
/// Returns an error if the configuration cannot be read.
pub(crate) fn export_of(targets: &WriteTargets, system: &System) -> io::Result<Option<String>> {
    for export in all_exports(system)? {
        if export.is_one_of(targets, system) {
            return Ok(Some(format!("served to others by the kernel ({})", export.description)));
        }
    }
    Ok(None)
}

/// A device or file that the kernel exports.
#[derive(Debug)]
struct Export {
    backing: Backing,
    /// Kind of the export, in words.
    description: String,
}

#[derive(Debug)]
enum Backing {
    Path(PathBuf),
    Device(DeviceNumber),
}

impl Export {
    fn of_path(path: String, description: String) -> Export {
        Export { backing: Backing::Path(path.into()), description }
    }

    fn is_one_of(&self, targets: &WriteTargets, system: &System) -> bool {
        let node = match &self.backing {
            Backing::Device(number) => Ok(NodeId::BlockDevice(*number)),
            Backing::Path(path) => (system.number_of)(path)
                .map_or_else(|| NodeId::at(path), |number| Ok(NodeId::BlockDevice(number))),
        };
        node.is_ok_and(|node| targets.contains(node))
    }
}

fn all_exports(system: &System) -> io::Result<Vec<Export>> {
    let config = system.sys.join("kernel/config");
    let mut found = Vec::new();
    nvme_targets(&config.join("nvmet/subsystems"), &mut found)?;
    scsi_targets(&config.join("target/core"), &mut found)?;
    usb_gadgets(&config.join("usb_gadget"), &mut found)?;
    rdma_devices(&system.sys.join("class/rnbd-server/ctl/devices"), &mut found)?;
    Ok(found)
}

/// Returns the text of an attribute, trimmed; empty if there is no such attribute.
fn attribute(path: &Path) -> io::Result<String> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => Ok(String::from_utf8_lossy(&read?).trim().to_owned()),
    }
}

/// Finds NVMe over Fabrics exports (drivers/nvme/target/configfs.c):
/// `subsystems/NQN/namespaces/ID/device_path`.
fn nvme_targets(subsystems: &Path, found: &mut Vec<Export>) -> io::Result<()> {
    for subsystem in names_in(subsystems)? {
        let namespaces = subsystems.join(&subsystem).join("namespaces");
        for namespace in names_in(&namespaces)? {
            let directory = namespaces.join(&namespace);
            // The target has the device open only while it is enabled.
            if attribute(&directory.join("enable"))? == "0" {
                continue;
            }
            let path = attribute(&directory.join("device_path"))?;
            let description = format!("nvmet subsystem {subsystem}, namespace {namespace}");
            found.push(Export::of_path(path, description));
        }
    }
    Ok(())
}

/// Finds LIO exports (drivers/target/target_core_configfs.c): `core/PLUGIN_N/NAME/udev_path`, which the
/// tools set, and `info`, in which fileio names its file (drivers/target/target_core_file.c).
fn scsi_targets(core: &Path, found: &mut Vec<Export>) -> io::Result<()> {
    for adapter in names_in(core)? {
        for store in names_in(&core.join(&adapter))? {
            let directory = core.join(&adapter).join(&store);
            let description = format!("SCSI target, backstore {adapter}/{store}");
            let path = attribute(&directory.join("udev_path"))?;
            let info = attribute(&directory.join("info"))?;
            let file = info.split_once("File: ").and_then(|(_, rest)| rest.split_once("  Size:"));
            let file = file.map(|(file, _)| file.to_owned());
            let named = |path| Export::of_path(path, description.clone());
            found.extend([Some(path), file].into_iter().flatten().map(named));
        }
    }
    Ok(())
}

/// Finds USB mass storage exports (drivers/usb/gadget/function/f_mass_storage.c):
/// `GADGET/functions/mass_storage.NAME/lun.N/file`.
fn usb_gadgets(gadgets: &Path, found: &mut Vec<Export>) -> io::Result<()> {
    for gadget in names_in(gadgets)? {
        let functions = gadgets.join(&gadget).join("functions");
        for function in names_in(&functions)? {
            if !function.starts_with("mass_storage.") {
                continue;
            }
            let function = functions.join(&function);
            for lun in names_in(&function)?.iter().filter(|name| name.starts_with("lun.")) {
                let path = attribute(&function.join(lun).join("file"))?;
                found.push(Export::of_path(path, format!("USB gadget {gadget}, {lun}")));
            }
        }
    }
    Ok(())
}

/// Finds exports of RDMA network block devices (drivers/block/rnbd/rnbd-srv-sysfs.c):
/// `devices/NAME/block_dev`, a link to the block device in sysfs.
fn rdma_devices(devices: &Path, found: &mut Vec<Export>) -> io::Result<()> {
    for name in names_in(devices)? {
        let text = attribute(&devices.join(&name).join("block_dev/dev"))?;
        let Some(number) = DeviceNumber::parse(&text) else { continue };
        let description = format!("rnbd server, {name}");
        found.push(Export { backing: Backing::Device(number), description });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::writers::Writer;
    use super::*;

    const DISK: DeviceNumber = DeviceNumber { major: 8, minor: 0 };

    /// Makes a system in which these attributes have these values.
    fn system(root: &Path, attributes: &[(&str, &str)]) -> System {
        for (path, text) in attributes {
            let path = root.join("sys").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        System {
            proc: root.join("proc"),
            sys: root.join("sys"),
            number_of: |path| (path == Path::new("/dev/sda")).then_some(DISK),
            claimed: |_| false,
            find_writer: |_| Ok(Writer::Nobody),
            backing_of: |_| Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn found(attributes: &[(&str, &str)]) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        let system = system(root.path(), attributes);
        let targets = WriteTargets { devices: vec![DISK], files: Vec::new() };
        export_of(&targets, &system).unwrap()
    }

    const NVMET: &str = "kernel/config/nvmet/subsystems/nqn.one/namespaces/1";

    #[test]
    fn what_an_nvme_target_serves_is_found_once_it_is_enabled() {
        let path = &format!("{NVMET}/device_path")[..];
        let enable = &format!("{NVMET}/enable")[..];
        let export = found(&[(path, "/dev/sda\n"), (enable, "1\n")]);
        let words = "served to others by the kernel (nvmet subsystem nqn.one, namespace 1)";
        assert_eq!(export.as_deref(), Some(words));
        assert_eq!(found(&[(path, "/dev/sda\n"), (enable, "0\n")]), None);
        assert_eq!(found(&[(path, "/dev/sdb\n"), (enable, "1\n")]), None);
        assert_eq!(found(&[(path, "\n"), (enable, "1\n")]), None);
    }

    #[test]
    fn what_a_scsi_target_serves_is_found_by_path_and_by_file() {
        let store = "kernel/config/target/core/fileio_0/disk";
        let [path, info] = ["udev_path", "info"].map(|name| format!("{store}/{name}"));
        let words = "served to others by the kernel (SCSI target, backstore fileio_0/disk)";
        assert_eq!(found(&[(&path, "/dev/sda\n")]).as_deref(), Some(words));
        let text = "Status: ACTIVATED  Max Queue Depth: 0  SectorSize: 512\n        TCM FILEIO ID: 0\
                    \x20       File: /dev/sda  Size: 1048576  Mode: O_DSYNC Async: 0\n";
        assert_eq!(found(&[(&path, "\n"), (&info, text)]).as_deref(), Some(words));
        let other = text.replace("sda", "sdb");
        assert_eq!(found(&[(&info, &other)]), None);
    }

    #[test]
    fn what_a_gadget_or_an_rdma_server_serves_is_found() {
        let lun = "kernel/config/usb_gadget/g1/functions/mass_storage.0/lun.0/file";
        let words = "served to others by the kernel (USB gadget g1, lun.0)";
        assert_eq!(found(&[(lun, "/dev/sda\n")]).as_deref(), Some(words));
        let other = "kernel/config/usb_gadget/g1/functions/ecm.0/lun.0/file";
        assert_eq!(found(&[(other, "/dev/sda\n")]), None);
        let server = "class/rnbd-server/ctl/devices/one/block_dev/dev";
        let words = "served to others by the kernel (rnbd server, one)";
        assert_eq!(found(&[(server, "8:0\n")]).as_deref(), Some(words));
    }

    #[test]
    fn a_file_that_is_served_is_found_by_its_inode() {
        let root = tempfile::tempdir().unwrap();
        let [file, link] = ["image", "link"].map(|name| root.path().join(name));
        fs::write(&file, "").unwrap();
        fs::hard_link(&file, &link).unwrap();
        let path = format!("{NVMET}/device_path");
        let system = system(root.path(), &[(&path, &link.display().to_string())]);
        let NodeId::File(inode) = NodeId::at(&file).unwrap() else { panic!("it is a file") };
        let targets = |files| WriteTargets { devices: Vec::new(), files };
        assert!(export_of(&targets(vec![inode]), &system).unwrap().is_some());
        assert_eq!(export_of(&targets(Vec::new()), &system).unwrap(), None);
    }
}
