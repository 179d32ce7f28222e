//! Writes C headers.
//!
//! | command line | what it writes |
//! |---|---|
//! | `headers` | the headers of `guest-driver/include/` |
//! | `headers FOLDER` | all headers of the C library, in a folder |

use std::path::Path;
use std::{env, fs};

use hamlyn_headers::{driver, library, repository};

fn main() -> Result<(), String> {
    match env::args_os().nth(1) {
        None => driver_headers(&repository().join("guest-driver/include")),
        Some(folder) => library::write(Path::new(&folder)),
    }
}

fn driver_headers(folder: &Path) -> Result<(), String> {
    for header in driver::read(&driver::source_folder())? {
        let path = folder.join(&header.name);
        fs::write(&path, header.text()).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
