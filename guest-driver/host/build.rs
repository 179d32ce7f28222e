//! Compiles the driver's connections a second time: the very files of the module, with `shim/` for
//! a kernel.

use std::env;
use std::path::Path;

/// What is compiled unchanged.
const KERNEL: [&str; 6] = ["system.c", "peer.c", "connect.c", "express.c", "expresstalk.c", "part.c"];
const SHIM: [&str; 3] = ["services.c", "verbs.c", "memory.c"];

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let driver = here.join("..");
    let mut build = cc::Build::new();
    build.files(KERNEL.map(|file| driver.join("kernel").join(file)));
    build.files(SHIM.map(|file| here.join("shim").join(file)));
    // The shim's headers are found before the system's of the same names. Of the core,
    // hamlyn_share.h alone is included.
    build.includes([here.join("shim"), driver.join("kernel"), driver.join("core"), driver.join("include")]);
    for read in
        [here.join("shim"), driver.join("kernel"), driver.join("core/hamlyn_share.h"), driver.join("include")]
    {
        println!("cargo::rerun-if-changed={}", read.display());
    }
    // Nobody but the tests compiles it (tests/records.rs): it is the kernel's alone, by its
    // licence.
    println!("cargo::rerun-if-changed={}", driver.join("core/records.c").display());
    build.std("gnu11").warnings(true).warnings_into_errors(true).extra_warnings(false);
    build.flag("-include").flag(here.join("shim/names.h"));
    // As fast as in a kernel, whatever the profile: the simulation runs it by the million.
    build.opt_level(2);
    if env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("musl") {
        // Any compiler for the processor does, as it needs no more of a C library than memory: but
        // nothing that another library has for its own checks.
        build.flag("-U_FORTIFY_SOURCE").flag("-fno-stack-protector");
        if env::var_os("CC").is_none()
            && env::var("HOST").map(|host| arch(&host)) == env::var("TARGET").map(|target| arch(&target))
        {
            build.compiler("cc");
        }
    }
    build.compile("hamlyn_driver_host");
}

/// The processor that a target is for.
fn arch(target: &str) -> String {
    target.split('-').next().unwrap_or_default().to_owned()
}
