//! QEMU's functions, looked up in the running program. So functions that we can do without may be
//! absent in some versions of QEMU, and tests need none of them.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::transmute_copy;
use std::ptr::null_mut;

use super::{
    code_is_gone_5, code_is_gone_7, interrupted_6, interrupted_7, processor_began_5, processor_began_7,
    translated_5, translated_7,
};

/// QEMU's description of itself.
#[repr(C)]
pub(super) struct Info {
    /// The emulated architecture.
    pub(super) target: *const c_char,
    _oldest: c_int,
    /// The interface version that it provides.
    pub(super) current: c_int,
    /// Whether it emulates a whole machine.
    pub(super) system: bool,
    _processors_now: c_int,
    /// Maximum number of processors.
    pub(super) processors: c_int,
}

/// A block of code in translation.
#[repr(C)]
pub(super) struct Block(u8);
/// An instruction of a block.
#[repr(C)]
pub(super) struct Instruction(u8);
/// The location of a store.
#[repr(C)]
pub(super) struct Place(u8);

/// A value, as QEMU passes it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Value {
    _kind: c_int,
    /// Lowest bytes first.
    pub(super) words: [u64; 2],
}

/// Flag of our callbacks: they do not look at registers.
const NO_REGISTERS: c_int = 0;
/// Selects stores.
const WRITES: c_int = 2;
/// Selects interrupts and exceptions of all kinds.
const ALL_KINDS: c_int = -1;
/// Kind of event: an interrupt, taken between two blocks of code.
pub(super) const INTERRUPT: c_int = 1;

pub(super) type OnStore = extern "C" fn(c_uint, u32, u64, *mut c_void);
pub(super) type OnInstruction = extern "C" fn(c_uint, *mut c_void);

/// The functions that register a callback or reset the plugin, by interface version.
enum Shapes {
    Five {
        processor: unsafe extern "C" fn(u64, extern "C" fn(u64, c_uint)),
        translation: unsafe extern "C" fn(u64, extern "C" fn(u64, *const Block)),
        interrupts: Option<unsafe extern "C" fn(u64, c_int, extern "C" fn(u64, c_uint, c_int, u64, u64))>,
        reset: unsafe extern "C" fn(u64, extern "C" fn(u64)),
    },
    Seven {
        processor: unsafe extern "C" fn(u64, extern "C" fn(c_uint, *mut c_void), *mut c_void),
        translation: unsafe extern "C" fn(u64, extern "C" fn(*const Block, *mut c_void), *mut c_void),
        interrupts: Option<Interrupts7>,
        reset: unsafe extern "C" fn(u64, extern "C" fn(*mut c_void), *mut c_void),
    },
}

type Interrupts7 =
    unsafe extern "C" fn(u64, c_int, extern "C" fn(c_uint, c_int, u64, u64, *mut c_void), *mut c_void);

/// The QEMU functions that we call.
pub(super) struct Api {
    shapes: Shapes,
    count: unsafe extern "C" fn(*const Block) -> usize,
    instruction: unsafe extern "C" fn(*const Block, usize) -> *mut Instruction,
    data: unsafe extern "C" fn(*const Instruction, *mut c_void, usize) -> usize,
    before: unsafe extern "C" fn(*mut Instruction, OnInstruction, c_int, *mut c_void),
    after_access: unsafe extern "C" fn(*mut Instruction, OnStore, c_int, c_int, *mut c_void),
    shift: unsafe extern "C" fn(u32) -> c_uint,
    is_big: unsafe extern "C" fn(u32) -> bool,
    value: unsafe extern "C" fn(u32) -> Value,
    place: unsafe extern "C" fn(u32, u64) -> *const Place,
    is_device: unsafe extern "C" fn(*const Place) -> bool,
    physical: unsafe extern "C" fn(*const Place) -> u64,
}

fn address(name: &CStr) -> *mut c_void {
    // SAFETY: a look-up of a name that ends in a zero byte, in everything that is loaded.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// Returns the address of QEMU's pointer to the processor that this thread runs. It is not part of
/// the interface for plugins; QEMU exports it for its own modules. Null in a QEMU that has it
/// elsewhere.
pub(super) fn running_processor() -> *mut *mut c_void {
    address(c"current_cpu").cast()
}

/// Returns whether this QEMU has a function.
pub(super) fn exists(name: &CStr) -> bool {
    !address(name).is_null()
}

/// Looks up a function of QEMU.
///
/// # Safety
///
/// `F` is a function pointer type with the function's signature.
unsafe fn perhaps<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let address = address(name);
    // SAFETY: the pointers have the same size, and the caller knows the signature.
    (!address.is_null()).then(|| unsafe { transmute_copy(&address) })
}

/// Looks up a function of QEMU. Fails with a message if it does not exist.
///
/// # Safety
///
/// As [`perhaps`].
unsafe fn function<F: Copy>(name: &CStr) -> Result<F, String> {
    // SAFETY: the caller guarantees it.
    unsafe { perhaps(name) }.ok_or_else(|| format!("this QEMU has no {}", name.to_string_lossy()))
}

impl Api {
    /// Looks up all functions. Fails with a message if one is missing.
    pub(super) fn find(with_pointers: bool) -> Result<Api, String> {
        let shapes = if with_pointers { Shapes::seven() } else { Shapes::five() }?;
        // SAFETY: the signatures are those of QEMU's public interface, since version 5.
        unsafe {
            Ok(Api {
                shapes,
                count: function(c"qemu_plugin_tb_n_insns")?,
                instruction: function(c"qemu_plugin_tb_get_insn")?,
                data: function(c"qemu_plugin_insn_data")?,
                before: function(c"qemu_plugin_register_vcpu_insn_exec_cb")?,
                after_access: function(c"qemu_plugin_register_vcpu_mem_cb")?,
                shift: function(c"qemu_plugin_mem_size_shift")?,
                is_big: function(c"qemu_plugin_mem_is_big_endian")?,
                value: function(c"qemu_plugin_mem_get_value")?,
                place: function(c"qemu_plugin_get_hwaddr")?,
                is_device: function(c"qemu_plugin_hwaddr_is_io")?,
                physical: function(c"qemu_plugin_hwaddr_phys_addr")?,
            })
        }
    }
}

const PROCESSOR: &CStr = c"qemu_plugin_register_vcpu_init_cb";
const TRANSLATION: &CStr = c"qemu_plugin_register_vcpu_tb_trans_cb";
const INTERRUPTS: &CStr = c"qemu_plugin_register_vcpu_discon_cb";
const RESET: &CStr = c"qemu_plugin_reset";

impl Shapes {
    fn five() -> Result<Shapes, String> {
        // SAFETY: the signatures are those of versions 5 and 6; only 6 reports interrupts.
        unsafe {
            Ok(Shapes::Five {
                processor: function(PROCESSOR)?,
                translation: function(TRANSLATION)?,
                interrupts: perhaps(INTERRUPTS),
                reset: function(RESET)?,
            })
        }
    }

    fn seven() -> Result<Shapes, String> {
        // SAFETY: the signatures are those of version 7.
        unsafe {
            Ok(Shapes::Seven {
                processor: function(PROCESSOR)?,
                translation: function(TRANSLATION)?,
                interrupts: perhaps(INTERRUPTS),
                reset: function(RESET)?,
            })
        }
    }
}

/// Registration. All callbacks last until the process ends.
impl Api {
    /// Registers the callback that each processor's thread calls when it starts.
    pub(super) fn on_processor(&self, plugin: u64) {
        // SAFETY: QEMU's function, with our number and a callback of this version's signature.
        unsafe {
            match &self.shapes {
                Shapes::Five { processor, .. } => processor(plugin, processor_began_5),
                Shapes::Seven { processor, .. } => processor(plugin, processor_began_7, null_mut()),
            }
        }
    }

    /// Registers the callback for code that is translated from now on.
    pub(super) fn on_translation(&self, plugin: u64) {
        // SAFETY: as above.
        unsafe {
            match &self.shapes {
                Shapes::Five { translation, .. } => translation(plugin, translated_5),
                Shapes::Seven { translation, .. } => translation(plugin, translated_7, null_mut()),
            }
        }
    }

    /// Registers the callback for interrupts and exceptions. Returns false if this QEMU does not
    /// support that.
    pub(super) fn on_interrupts(&self, plugin: u64) -> bool {
        // SAFETY: as above.
        unsafe {
            match &self.shapes {
                Shapes::Five { interrupts: Some(interrupts), .. } => {
                    interrupts(plugin, ALL_KINDS, interrupted_6)
                }
                Shapes::Seven { interrupts: Some(interrupts), .. } => {
                    interrupts(plugin, ALL_KINDS, interrupted_7, null_mut());
                }
                Shapes::Five { interrupts: None, .. } | Shapes::Seven { interrupts: None, .. } => {
                    return false;
                }
            }
        }
        true
    }

    /// Discards all code, and all our callbacks. Called on a processor's thread.
    pub(super) fn reset(&self, plugin: u64) {
        // SAFETY: as above.
        unsafe {
            match &self.shapes {
                Shapes::Five { reset, .. } => reset(plugin, code_is_gone_5),
                Shapes::Seven { reset, .. } => reset(plugin, code_is_gone_7, null_mut()),
            }
        }
    }
}

/// Translation. QEMU owns a block and its instructions; they live as long as the callback that was
/// passed them.
impl Api {
    pub(super) fn instructions(&self, block: *const Block) -> usize {
        // SAFETY: see above.
        unsafe { (self.count)(block) }
    }

    pub(super) fn instruction(&self, block: *const Block, index: usize) -> *mut Instruction {
        // SAFETY: see above; the index is below their number.
        unsafe { (self.instruction)(block, index) }
    }

    /// Copies an instruction's bytes to `bytes`, and returns their number.
    pub(super) fn bytes(&self, instruction: *const Instruction, bytes: &mut [u8]) -> usize {
        // SAFETY: see above; it writes at most `bytes.len()` bytes.
        unsafe { (self.data)(instruction, bytes.as_mut_ptr().cast(), bytes.len()) }
    }

    pub(super) fn before(&self, instruction: *mut Instruction, call: OnInstruction) {
        // SAFETY: see above.
        unsafe { (self.before)(instruction, call, NO_REGISTERS, null_mut()) };
    }

    pub(super) fn after_stores(&self, instruction: *mut Instruction, call: OnStore) {
        // SAFETY: see above.
        unsafe { (self.after_access)(instruction, call, NO_REGISTERS, WRITES, null_mut()) };
    }
}

/// Queries about a store, in its callback and on its thread.
impl Api {
    pub(super) fn shift(&self, info: u32) -> c_uint {
        // SAFETY: see above.
        unsafe { (self.shift)(info) }
    }

    /// Returns whether the highest byte of the value comes first in memory.
    pub(super) fn is_big(&self, info: u32) -> bool {
        // SAFETY: see above.
        unsafe { (self.is_big)(info) }
    }

    pub(super) fn value(&self, info: u32) -> Value {
        // SAFETY: see above.
        unsafe { (self.value)(info) }
    }

    /// Returns a byte's guest-physical address, or `None` for a device's memory.
    pub(super) fn physical(&self, info: u32, address: u64) -> Option<u64> {
        // SAFETY: see above; the result, if any, is valid until this thread's next query.
        unsafe {
            let place = (self.place)(info, address);
            (!place.is_null() && !(self.is_device)(place)).then(|| (self.physical)(place))
        }
    }
}
