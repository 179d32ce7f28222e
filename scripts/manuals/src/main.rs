//! `manuals FOLDER`: writes all manual pages there, below `man1`, `man3` and `man4`.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| io::Error::other("usage: manuals FOLDER"))?;
    for (name, text) in hamlyn_manuals::all()? {
        let section = name.rsplit('.').next().unwrap_or_default();
        let folder = folder.join(format!("man{section}"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}
