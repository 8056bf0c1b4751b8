"""The guest's file system: busybox, the tools under test with their libraries, kernel modules."""

import lzma
import os
import re
import shutil
import stat
import subprocess

from errors import Cannot
from kernel import search_path

# Programs that the stacks are built and looked at with, and the packages they come in.
TOOLS = {
    "blkdiscard": "util-linux", "btrfs": "btrfs-progs", "cryptsetup": "cryptsetup-bin",
    "dmsetup": "dmsetup", "fstrim": "util-linux", "hdparm": "hdparm", "losetup": "mount",
    "lsblk": "util-linux", "lvm": "lvm2", "mdadm": "mdadm", "mkfs.btrfs": "btrfs-progs",
    "mkfs.ext4": "e2fsprogs", "mkfs.minix": "util-linux", "mkfs.xfs": "xfsprogs",
    "nvme": "nvme-cli", "setpriv": "util-linux", "sfdisk": "fdisk", "smartctl": "smartmontools", "sysctl": "procps",
}

# Kernel modules that may be asked for; what they need comes with them, and what is built in, or
# not there in this kernel, is left out.
MODULES = """
    virtio_pci virtio_blk virtio_scsi virtio_console nvme ahci sd_mod xhci_pci usb_storage uas
    ext4 xfs btrfs minix loop zram lzo_rle crc32c_generic libcrc32c crc32c_intel
    linear raid0 raid1 raid10 raid456 dm_mod dm_crypt dm_thin_pool dm_snapshot dm_raid dm_mirror
    xts ecb cbc algif_skcipher algif_hash sha256_generic xxhash_generic blake2b_generic
""".split()

# Found with dlopen, which ldd does not show: threads that end need it.
EXTRA_LIBRARIES = ["libgcc_s.so.1"]

DIRECTORIES = ["bin", "dev", "etc", "etc/lvm", "lib", "mnt", "proc", "root", "run", "run/cryptsetup",
               "run/lock", "run/lvm", "sbin", "sys", "tmp", "usr", "usr/bin", "usr/sbin", "var",
               "var/lib", "var/tmp"]


class Archive:
    """A cpio archive of the form that the kernel unpacks ('newc')."""

    def __init__(self, path):
        self.out = open(path, "wb")
        self.number = 0
        self.names = set()

    def close(self):
        self.add("TRAILER!!!", 0, b"")
        self.out.close()

    def add(self, name, mode, data, device=(0, 0)):
        if name in self.names:
            return
        self.names.add(name)
        self.number += 1
        encoded = name.encode() + b"\0"
        fields = [self.number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0]
        header = b"070701" + b"".join(b"%08x" % field for field in fields)
        self.write_padded(header + encoded)
        self.write_padded(data)

    def write_padded(self, data):
        self.out.write(data + b"\0" * (-len(data) % 4))

    def directory(self, name):
        """Adds a directory, after those that it is in."""
        parent = os.path.dirname(name)
        if parent:
            self.directory(parent)
        self.add(name, stat.S_IFDIR | 0o755, b"")

    def file(self, name, source, mode=0o755):
        """Adds a file of this machine, under a name of its own."""
        self.directory(os.path.dirname(name))
        with open(source, "rb") as file:
            self.add(name, stat.S_IFREG | mode, file.read())

    def text(self, name, text, mode=0o644):
        self.directory(os.path.dirname(name))
        self.add(name, stat.S_IFREG | mode, text.encode())

    def link(self, name, to):
        self.directory(os.path.dirname(name))
        self.add(name, stat.S_IFLNK | 0o777, to.encode())


def tools_script():
    """Functions of the shell for the tools: busybox's shell would take its own of the same name."""
    return "".join(f'{name}() {{ /usr/sbin/{name} "$@"; }}\n' for name in TOOLS
                   if name.isidentifier())


def build(path, kernel, ssdlab, scripts, texts):
    """Writes the archive: `scripts` are files of ours, `texts` small files, by their names there."""
    archive = Archive(path)
    try:
        for directory in DIRECTORIES:
            archive.directory(directory)
        archive.add("dev/console", stat.S_IFCHR | 0o600, b"", (5, 1))
        add_programs(archive, ssdlab)
        add_modules(archive, kernel)
        for name, source in scripts.items():
            archive.file(name, source)
        for name, text in texts.items():
            archive.text(name, text)
    finally:
        archive.close()


def add_programs(archive, ssdlab):
    search = search_path()
    busybox = shutil.which("busybox", path=search)
    archive.file("bin/busybox", busybox)
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    programs = {f"usr/sbin/{name}": shutil.which(name, path=search) for name in TOOLS}
    programs["usr/bin/ssdlab"] = ssdlab
    libraries = {}
    for name, source in programs.items():
        source = os.path.realpath(source)
        archive.file(name, source)
        libraries.update(shared_libraries(source))
    for library in EXTRA_LIBRARIES:
        beside = {os.path.dirname(source) for source in libraries.values()}
        for directory in beside:
            if os.path.exists(os.path.join(directory, library)):
                libraries[os.path.join(directory, library)] = os.path.join(directory, library)
    for name, source in libraries.items():
        archive.file(name.lstrip("/"), os.path.realpath(source))
    for name in names.stdout.split():
        # The tools under test are the real ones.
        if name not in TOOLS and name != "busybox":
            archive.link(f"bin/{name}", "/bin/busybox")
    archive.link("sbin/modprobe", "/bin/busybox")
    if os.path.exists("/etc/mke2fs.conf"):
        archive.file("etc/mke2fs.conf", "/etc/mke2fs.conf", 0o644)


def shared_libraries(program):
    """Paths that a program's loader looks for, and the loader; each with the file there."""
    answer = subprocess.run(["ldd", program], capture_output=True, text=True)
    if answer.returncode != 0:
        return {}
    found = re.findall(r"(?:=> )?(/\S+) \(0x", answer.stdout)
    return {path: path for path in found}


def add_modules(archive, kernel):
    """The modules wanted with all they need, and the kernel's lists cut down to these."""
    depends = {}
    with open(os.path.join(kernel.modules, "modules.dep"), encoding="utf-8") as file:
        for line in file:
            path, _, needs = line.partition(":")
            depends[path] = needs.split()
    by_name = {module_name(path): path for path in depends}
    with open(os.path.join(kernel.modules, "modules.builtin"), encoding="utf-8") as file:
        built_in = {module_name(line.strip()) for line in file}
    wanted = set()
    for name in MODULES:
        if name in by_name:
            wanted.add(by_name[name])
            wanted.update(depends[by_name[name]])
        elif name not in built_in:
            print(f"kernel {kernel.version} has no module {name}")
    base = f"lib/modules/{kernel.version}"
    for path in sorted(wanted):
        plain, data = uncompressed(os.path.join(kernel.modules, path), path)
        archive.directory(os.path.dirname(f"{base}/{plain}"))
        archive.add(f"{base}/{plain}", stat.S_IFREG | 0o644, data)
    lines = [f"{plain_name(path)}: {' '.join(map(plain_name, depends[path]))}\n" for path in sorted(wanted)]
    archive.text(f"{base}/modules.dep", "".join(lines))
    ours = {module_name(path) for path in wanted}
    for name in ("modules.alias", "modules.symbols"):
        with open(os.path.join(kernel.modules, name), encoding="utf-8") as file:
            kept = [line for line in file if line.split()[-1].replace("-", "_") in ours]
        archive.text(f"{base}/{name}", "".join(kept))


def module_name(path):
    """The name of a module, as the kernel writes it."""
    return os.path.basename(path).partition(".ko")[0].replace("-", "_")


def plain_name(path):
    return path.partition(".ko")[0] + ".ko"


def uncompressed(path, name):
    """A module as the guest's small modprobe loads it."""
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".xz"):
        data = lzma.decompress(data)
    elif not path.endswith(".ko"):
        raise Cannot(f"cannot decompress {path}")
    return plain_name(name), data
