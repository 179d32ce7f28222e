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
    for header in &c_api::HEADERS {
        let text = header.text(&tests.join("../guest-lib/c/src")).map_err(|error| error.to_string())?;
        let path = c_api::include(tests).join(header.name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
