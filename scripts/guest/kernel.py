"""A kernel with modules, from the distribution's package: fetched and unpacked, not installed."""

import glob
import os
import shutil
import subprocess

from errors import Cannot

# Debian's package that depends on the newest kernel's.
NEWEST = "linux-image-amd64"


class Kernel:
    """An unpacked kernel package."""

    def __init__(self, root):
        self.root = root
        images = glob.glob(os.path.join(root, "boot", "vmlinuz-*"))
        modules = (glob.glob(os.path.join(root, "lib", "modules", "*"))
                   + glob.glob(os.path.join(root, "usr", "lib", "modules", "*")))
        if len(images) != 1 or len(modules) != 1:
            raise Cannot(f"{root} does not hold one kernel with its modules")
        self.image = images[0]
        self.modules = modules[0]
        self.version = os.path.basename(self.modules)


def fetch(cache, package_file=None):
    """The kernel in `cache`, or else the newest one that apt-get can download, put there."""
    os.makedirs(cache, exist_ok=True)
    if package_file:
        return unpack(cache, package_file)
    name = newest_package()
    if name is None and may_update():
        name = newest_package()
    if name is None:
        kept = sorted(glob.glob(os.path.join(cache, "*", "lib", "modules")))
        if kept:
            return Kernel(os.path.dirname(os.path.dirname(kept[-1])))
        raise Cannot(f"apt knows no package {NEWEST}; give one with --kernel FILE.deb")
    place = os.path.join(cache, name)
    if not os.path.isdir(place):
        unpack(cache, download(cache, name), name)
    return Kernel(place)


def newest_package():
    """The name of the newest kernel's package, as far as apt's lists tell."""
    if shutil.which("apt-cache") is None:
        return None
    answer = subprocess.run(["apt-cache", "depends", NEWEST], capture_output=True, text=True)
    for line in answer.stdout.splitlines():
        kind, _, name = line.strip().partition(": ")
        if kind == "Depends" and name.startswith("linux-image-"):
            return name
    return None


def may_update():
    """Brings apt's lists up to date, where that is allowed."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    done = subprocess.run(["apt-get", "update", "-q"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, timeout=300)
    return done.returncode == 0


def download(cache, name):
    """Has apt-get check and fetch a package; gives the file."""
    for attempt in ("first", "with fresh lists"):
        try:
            done = subprocess.run(["apt-get", "download", "-q", name], cwd=cache, timeout=300,
                                  capture_output=True, text=True)
        except subprocess.TimeoutExpired as late:
            raise Cannot(f"{name} was not downloaded within 300 s") from late
        found = glob.glob(os.path.join(cache, glob.escape(name) + "_*.deb"))
        if done.returncode == 0 and found:
            return found[0]
        if attempt == "first" and not may_update():
            break
    raise Cannot(f"apt-get download {name}: {done.stderr.strip() or 'gave no file'}")


def unpack(cache, package_file, name=None):
    """Unpacks a package, and lists what its modules depend on, under its name in `cache`."""
    name = name or os.path.basename(package_file).removesuffix(".deb")
    place = os.path.join(cache, name)
    if os.path.isdir(place):
        return Kernel(place)
    half = place + ".half"
    shutil.rmtree(half, ignore_errors=True)
    done = subprocess.run(["dpkg", "-x", package_file, half], capture_output=True, text=True)
    if done.returncode != 0:
        raise Cannot(f"dpkg -x {package_file}: {done.stderr.strip()}")
    kernel = Kernel(half)
    base = kernel.modules[:-len(os.path.join("lib", "modules", kernel.version))]
    depmod = shutil.which("depmod", path=search_path()) or "depmod"
    done = subprocess.run([depmod, "-b", base, kernel.version], capture_output=True, text=True)
    if done.returncode != 0:
        raise Cannot(f"{depmod}: {done.stderr.strip()}")
    # Not before it is whole does it have its name.
    os.rename(half, place)
    return Kernel(place)


def search_path():
    """PATH, with the directories that only root's may have."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/local/sbin"])
