//! Writes the C headers of `guest-driver/` and of the C library anew.

use std::fs;
use std::path::Path;

use hamlyn_tests::{c_api, headers};

fn main() -> Result<(), String> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    for header in headers::read(&headers::source_folder(tests))? {
        let path = tests.join("../guest-driver/include").join(&header.name);
        fs::write(&path, header.text()).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let header = c_api::header(&tests.join("../guest-lib/c/src")).map_err(|error| error.to_string())?;
    let path = tests.join(c_api::HEADER);
    fs::write(&path, header).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(())
}
