//! Writes C headers.
//!
//! | command line | what it writes |
//! |---|---|
//! | `headers` | the headers of `guest-driver/include/` |
//! | `headers FOLDER` | all headers of the C library, in a folder |

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fs};

use hamlyn_headers::{driver, library, repository};

fn main() -> Result<(), String> {
    match env::args_os().nth(1) {
        None => driver_headers(&repository().join("guest-driver/include")),
        Some(folder) => library_headers(Path::new(&folder)),
    }
}

fn driver_headers(folder: &Path) -> Result<(), String> {
    driver::read(&driver::source_folder())?
        .iter()
        .try_for_each(|header| write(folder.join(&header.name), &header.text()))
}

fn library_headers(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for header in &library::HEADERS {
        let text = header.text().map_err(|error| format!("{}: {error}", header.name))?;
        write(folder.join(header.name), &text)?;
    }
    // Hand-written headers go to the same folder, so that a program needs only one.
    let by_hand = fs::read_dir(library::by_hand()).map_err(|error| error.to_string())?;
    for file in by_hand.filter_map(Result::ok).map(|file| file.path()) {
        if let Some(name) =
            file.extension().and_then(OsStr::to_str).filter(|ending| *ending == "h").and(file.file_name())
        {
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            write(folder.join(name), &text)?;
        }
    }
    Ok(())
}

fn write(path: PathBuf, text: &str) -> Result<(), String> {
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}
