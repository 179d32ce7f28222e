//! Writes the C headers of `guest-driver/` anew.

use std::fs;
use std::path::Path;

use hamlyn_tests::headers;

fn main() -> Result<(), String> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    for header in headers::read(&headers::source_folder(tests))? {
        let path = tests.join("../guest-driver").join(header.name);
        fs::write(&path, header.text()).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
