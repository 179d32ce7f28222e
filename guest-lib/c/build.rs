//! The shared library's own name, by which programs that are linked with it find it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The package's version is the one source: scripts/install names the file, and fills hamlyn.pc in, by the same.
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libhamlyn.so.{major}");
}
