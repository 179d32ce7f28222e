//! QEMU's interface for plugins, written from its public documentation, and our callbacks.
//!
//! Versions 5 and 6 differ from 7 in the signatures of callbacks and of the functions that register
//! them. Version 7 passes each callback a pointer of ours, which we do not use, instead of the
//! plugin's number. A plugin declares its version before it is called the first time. So [`CHOOSE`]
//! detects QEMU's version at load time.

#![allow(unsafe_code)]

mod api;
mod reported;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use std::thread::{self, ThreadId};

use hamlyn_snoop::Machine;

use crate::decode::{Effect, LONGEST, effect};
use crate::snooper::{Code, Snooper};
use api::{Api, Block, INTERRUPT, Info, exists, running_processor};
use reported::ReportedStore;

/// The oldest interface version with everything that we need.
const OLDEST: c_int = 5;
/// The first version with the other signatures.
const WITH_POINTERS: c_int = 7;

/// The interface version that this plugin is made for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub(crate) static qemu_plugin_version: AtomicI32 = AtomicI32::new(WITH_POINTERS);

/// Called by the loader, before QEMU reads our version.
#[used]
#[unsafe(link_section = ".init_array")]
static CHOOSE: extern "C" fn() = choose;

extern "C" fn choose() {
    // This function was added before version 7, and after the release with version 5.
    if !exists(c"qemu_plugin_set_pc") {
        qemu_plugin_version.store(OLDEST, Ordering::Relaxed);
    }
}

/// State that all callbacks need.
struct Installed {
    api: Api,
    plugin: u64,
    snooper: Snooper,
}

static INSTALLED: OnceLock<Installed> = OnceLock::new();
/// The thread that all processors run on.
static THREAD: OnceLock<ThreadId> = OnceLock::new();
/// Address of QEMU's thread-local pointer to the running processor.
static RUNNING: AtomicPtr<*mut c_void> = AtomicPtr::new(null_mut());

fn fail(reason: &str) -> c_int {
    eprintln!("libhamlyn_snoop: {reason}");
    1
}

/// QEMU's first call. A result other than 0 ends QEMU.
#[unsafe(no_mangle)]
extern "C" fn qemu_plugin_install(
    plugin: u64,
    info: *const Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU passes a description of itself that lives as long as this call.
    let Some(info) = (unsafe { info.as_ref() }) else { return fail("QEMU says nothing of itself") };
    let words = (0..usize::try_from(count).unwrap_or(0)).map(|at| {
        // SAFETY: QEMU passes `count` pointers to texts that end in a zero byte, and keeps them.
        unsafe { CStr::from_ptr(*arguments.add(at)) }.to_bytes()
    });
    let installed = match prepare(plugin, info, words) {
        Ok(installed) => installed,
        Err(reason) => return fail(&reason),
    };
    if INSTALLED.set(installed).is_err() {
        return fail("it is there already");
    }
    let Some(installed) = INSTALLED.get() else { return 1 };
    installed.api.on_processor(plugin);
    if !installed.api.on_interrupts(plugin) {
        installed.snooper.always();
        installed.api.on_translation(plugin);
    }
    0
}

fn prepare<'a>(plugin: u64, info: &Info, words: impl Iterator<Item = &'a [u8]>) -> Result<Installed, String> {
    if info.current < OLDEST {
        return Err(format!(
            "QEMU's interface for plugins is version {} (must be {OLDEST} or later)",
            info.current
        ));
    }
    // SAFETY: as above; the name is a text of QEMU's own.
    let target = unsafe { info.target.as_ref().map(|target| CStr::from_ptr(target)) };
    if target != Some(c"x86_64") || !info.system {
        return Err(format!("this QEMU emulates {target:?} (must be a machine of x86_64)"));
    }
    let api = Api::find(info.current >= WITH_POINTERS)?;
    let socket = socket(words)?;
    let machine = Machine::connect(&socket).map_err(|error| error.to_string())?;
    let processors = usize::try_from(info.processors).unwrap_or(0).max(1);
    Ok(Installed { api, plugin, snooper: Snooper::new(machine, processors) })
}

/// Parses the only valid argument, `socket=PATH`.
fn socket<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<PathBuf, String> {
    let mut socket = None;
    for word in words {
        let path = word.strip_prefix(b"socket=").filter(|path| !path.is_empty() && socket.is_none());
        let Some(path) = path else {
            let word = String::from_utf8_lossy(word);
            return Err(format!("argument {word:?} is not understood (there is one: socket=PATH)"));
        };
        socket = Some(Path::new(std::ffi::OsStr::from_bytes(path)).to_owned());
    }
    socket.ok_or_else(|| "an argument is missing: socket=PATH, where the card listens".to_owned())
}

/// Called when a processor's thread starts. With several threads, reports would not be reliable.
fn processor_began() {
    let here = thread::current().id();
    if *THREAD.get_or_init(|| here) != here {
        fail(
            "processors run side by side, so stores cannot be told exactly: start QEMU with -accel tcg,thread=single",
        );
        // SAFETY: it ends the process at once. QEMU's own exit would wait for this very thread.
        unsafe { libc::_exit(1) };
    }
    RUNNING.store(running_processor(), Ordering::Relaxed);
}

/// Returns a value that identifies the running processor, or 0 if QEMU does not provide one.
fn running() -> usize {
    let place = RUNNING.load(Ordering::Relaxed);
    // SAFETY: it is a word of the thread that all processors run on, and that thread has called us.
    if place.is_null() { 0 } else { unsafe { *place as usize } }
}

extern "C" fn processor_began_5(_plugin: u64, _processor: c_uint) {
    processor_began();
}

extern "C" fn processor_began_7(_processor: c_uint, _: *mut c_void) {
    processor_began();
}

fn interrupted(processor: c_uint, kind: c_int) {
    let Some(installed) = INSTALLED.get() else { return };
    let snooper = &installed.snooper;
    let is_time = if kind == INTERRUPT {
        snooper.interrupted(processor, running())
    } else {
        snooper.excepted(processor, running())
    };
    if is_time {
        installed.api.reset(installed.plugin);
    }
}

extern "C" fn interrupted_6(_plugin: u64, processor: c_uint, kind: c_int, _from: u64, _to: u64) {
    interrupted(processor, kind);
}

extern "C" fn interrupted_7(processor: c_uint, kind: c_int, _from: u64, _to: u64, _: *mut c_void) {
    interrupted(processor, kind);
}

/// Called when all our callbacks and all code are gone, and no processor runs.
fn code_is_gone() {
    let Some(installed) = INSTALLED.get() else { return };
    // Processors that are added later have to be checked, too.
    installed.api.on_processor(installed.plugin);
    installed.api.on_interrupts(installed.plugin);
    if installed.snooper.code_is_gone() == Code::Telling {
        installed.api.on_translation(installed.plugin);
        installed.snooper.begin();
    }
}

extern "C" fn code_is_gone_5(_plugin: u64) {
    code_is_gone();
}

extern "C" fn code_is_gone_7(_: *mut c_void) {
    code_is_gone();
}

/// Called when a block of code is translated. Registers callbacks for its stores, and for
/// instructions that change the mapping of addresses.
fn translated(block: *const Block) {
    let Some(Installed { api, snooper, .. }) = INSTALLED.get() else { return };
    snooper.translated();
    for index in 0..api.instructions(block) {
        let instruction = api.instruction(block, index);
        let mut bytes = [0; LONGEST];
        let length = api.bytes(instruction, &mut bytes);
        match effect(&bytes[..length.min(LONGEST)]) {
            Effect::None => {}
            Effect::Changes => api.before(instruction, changes),
            Effect::Nests => api.before(instruction, nests),
        }
        api.after_stores(instruction, stored);
    }
}

extern "C" fn translated_5(_plugin: u64, block: *const Block) {
    translated(block);
}

extern "C" fn translated_7(block: *const Block, _: *mut c_void) {
    translated(block);
}

extern "C" fn changes(processor: c_uint, _: *mut c_void) {
    if let Some(installed) = INSTALLED.get() {
        installed.snooper.effect(processor, running, Effect::Changes);
    }
}

extern "C" fn nests(processor: c_uint, _: *mut c_void) {
    if let Some(installed) = INSTALLED.get() {
        installed.snooper.effect(processor, running, Effect::Nests);
    }
}

/// Called after a store.
extern "C" fn stored(processor: c_uint, info: u32, address: u64, _: *mut c_void) {
    if let Some(installed) = INSTALLED.get() {
        installed.snooper.store(processor, running, address, &ReportedStore { api: &installed.api, info });
    }
}
