//! How functions for C are declared: with the types that their bodies use.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

use crate::call::{Failure, given};
use crate::memory::text;

/// Declares functions for C. `scripts/headers` reads these declarations too, so the contents are
/// not indented: the lines of their comments become those of the headers.
///
/// C passes each argument as [`Argument::C`]. The body runs once all arguments are checked. It may
/// use `?` as in a function that returns `Result<_, Failure>`, and its value is the function's
/// [`Answer`]. A function without a body frees its argument, and returns nothing.
macro_rules! exported {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:tt)*) => {
        $($crate::exported::exported!(@ $(#[$about])* $name($($argument: $type),*) $body);)*
    };
    (@ $(#[$about:meta])* $name:ident($object:ident: $type:ty) ;) => {
        $(#[$about])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($object: Option<$type>) {
            $crate::call::free($object);
        }
    };
    (@ $(#[$about:meta])* $name:ident($($argument:ident: $type:ty),*) $body:block) => {
        $(#[$about])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($argument: <$type as $crate::exported::Argument>::C),*
        ) -> std::ffi::c_int {
            $crate::call::call(|| {
                $(
                    let $argument =
                        <$type as $crate::exported::Argument>::check($argument, stringify!($argument))?;
                )*
                Ok($crate::exported::Answer::number($body))
            })
        }
    };
}

pub(crate) use exported;

/// An argument of an exported function.
pub trait Argument: Sized {
    /// What C passes. `scripts/headers` has the same table.
    type C;

    /// Checks what C has passed: pointers must not be null, and strings must be UTF-8.
    fn check(passed: Self::C, name: &str) -> Result<Self, Failure>;
}

/// A place where C wants a result.
pub struct Out<'a, T>(&'a mut MaybeUninit<T>);

impl<T> Out<'_, T> {
    /// Stores the result.
    pub fn store(self, value: impl Into<T>) {
        self.0.write(value.into());
    }
}

macro_rules! arguments {
    ($(<$($generic:ident)?> $type:ty => $passed:ty, $check:ident;)*) => {$(
        impl$(<$generic>)? Argument for $type {
            type C = $passed;

            fn check(passed: Self::C, name: &str) -> Result<Self, Failure> {
                $check(passed, name)
            }
        }
    )*};
}

arguments! {
    <T> &T => Option<Self>, given;
    <T> &mut T => Option<Self>, given;
    <T> Box<T> => Option<Self>, given;
    <> &str => *const c_char, text;
    // A pointer that may be null.
    <T> Option<&T> => Self, unchecked;
    // Bytes and arrays: the body checks them with their lengths.
    <T> *const T => Self, unchecked;
    <T> *mut T => Self, unchecked;
    <> c_int => Self, unchecked;
    <> u32 => Self, unchecked;
    <> u64 => Self, unchecked;
    <> usize => Self, unchecked;
}

fn unchecked<T>(passed: T, _: &str) -> Result<T, Failure> {
    Ok(passed)
}

impl<'a, T> Argument for Out<'a, T> {
    type C = Option<&'a mut MaybeUninit<T>>;

    fn check(passed: Self::C, name: &str) -> Result<Self, Failure> {
        given(passed, name).map(Out)
    }
}

/// A place that may be null: then C does not want the result.
impl<'a, T> Argument for Option<Out<'a, T>> {
    type C = Option<&'a mut MaybeUninit<T>>;

    fn check(passed: Self::C, _: &str) -> Result<Self, Failure> {
        Ok(passed.map(Out))
    }
}

/// What an exported function returns, unless it fails.
pub trait Answer {
    /// Returns the number that C gets.
    fn number(self) -> c_int;
}

impl Answer for () {
    fn number(self) -> c_int {
        0
    }
}

impl Answer for bool {
    fn number(self) -> c_int {
        self.into()
    }
}

impl Answer for c_int {
    fn number(self) -> c_int {
        self
    }
}

/// A length or number. One that exceeds `c_int` becomes its maximum.
impl Answer for usize {
    fn number(self) -> c_int {
        c_int::try_from(self).unwrap_or(c_int::MAX)
    }
}

impl Answer for u32 {
    fn number(self) -> c_int {
        (self as usize).number()
    }
}
