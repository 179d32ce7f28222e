//! The shared library's own name, by which programs that are linked with it find it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libhamlyn.so.0");
}
