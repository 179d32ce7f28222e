//! Compiles the driver's connections a second time: the module's own files, with `shim/` in place
//! of a kernel.

use std::env;
use std::path::Path;

/// Files that are compiled unchanged.
const KERNEL: [&str; 11] = [
    "connect.c",
    "connecttalk.c",
    "express.c",
    "expresshost.c",
    "expresstalk.c",
    "expresstell.c",
    "listener.c",
    "part.c",
    "peer.c",
    "service.c",
    "system.c",
];
const SHIM: [&str; 3] = ["services.c", "verbs.c", "memory.c"];

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Links to the module's folders, so that a package of this crate has their files.
    let driver = here.join("driver");
    let mut build = cc::Build::new();
    build.files(KERNEL.map(|file| driver.join("kernel").join(file)));
    build.files(SHIM.map(|file| here.join("shim").join(file)));
    // The shim's headers are found before those of the system, and of the driver's base, with the
    // same names.
    let headers = [here.join("shim"), driver.join("kernel"), driver.join("base"), driver.join("include")];
    build.includes(&headers);
    for read in headers {
        println!("cargo::rerun-if-changed={}", read.display());
    }
    // Only the tests compile it (tests/records.rs), because its licence is the kernel's alone.
    println!("cargo::rerun-if-changed={}", here.join("../core/records.c").display());
    build.std("gnu11").warnings(true).warnings_into_errors(true).extra_warnings(false);
    build.flag("-include").flag(here.join("shim/names.h"));
    // Optimized as in a kernel, in every profile, because the simulation runs it millions of times.
    build.opt_level(2);
    if env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("musl") {
        // Any compiler for the processor works, because the code needs only memory from a C
        // library. But the compiler must not add calls to another library's checks.
        build.flag("-U_FORTIFY_SOURCE").flag("-fno-stack-protector");
        if env::var_os("CC").is_none()
            && env::var("HOST").map(|host| arch(&host)) == env::var("TARGET").map(|target| arch(&target))
        {
            build.compiler("cc");
        }
    }
    build.compile("hamlyn_driver_host");
}

/// Returns the processor of a target triple.
fn arch(target: &str) -> String {
    target.split('-').next().unwrap_or_default().to_owned()
}
