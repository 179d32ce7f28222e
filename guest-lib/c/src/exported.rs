//! How functions for C are declared: with the types that their bodies use.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

use crate::call::{Failure, count, given};
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

impl<T> Argument for &T {
    type C = Option<Self>;

    fn check(passed: Self::C, name: &str) -> Result<Self, Failure> {
        given(passed, name)
    }
}

impl<T> Argument for &mut T {
    type C = Option<Self>;

    fn check(passed: Self::C, name: &str) -> Result<Self, Failure> {
        given(passed, name)
    }
}

impl<T> Argument for Box<T> {
    type C = Option<Self>;

    fn check(passed: Self::C, name: &str) -> Result<Self, Failure> {
        given(passed, name)
    }
}

impl<'a, T> Argument for Out<'a, T> {
    type C = Option<&'a mut MaybeUninit<T>>;

    fn check(passed: Self::C, name: &str) -> Result<Self, Failure> {
        given(passed, name).map(Out)
    }
}

impl Argument for &str {
    type C = *const c_char;

    fn check(passed: Self::C, name: &str) -> Result<Self, Failure> {
        text(passed, name)
    }
}

/// May be null.
impl<T> Argument for Option<&T> {
    type C = Self;

    fn check(passed: Self::C, _: &str) -> Result<Self, Failure> {
        Ok(passed)
    }
}

/// May be null: then C does not want the result.
impl<'a, T> Argument for Option<Out<'a, T>> {
    type C = Option<&'a mut MaybeUninit<T>>;

    fn check(passed: Self::C, _: &str) -> Result<Self, Failure> {
        Ok(passed.map(Out))
    }
}

impl<T> Argument for *const T {
    type C = Self;

    fn check(passed: Self::C, _: &str) -> Result<Self, Failure> {
        Ok(passed)
    }
}

impl<T> Argument for *mut T {
    type C = Self;

    fn check(passed: Self::C, _: &str) -> Result<Self, Failure> {
        Ok(passed)
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Argument for $type {
            type C = Self;

            fn check(passed: Self::C, _: &str) -> Result<Self, Failure> {
                Ok(passed)
            }
        }
    )*};
}

numbers!(c_int, u32, u64, usize);

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

impl Answer for usize {
    fn number(self) -> c_int {
        count(self)
    }
}

impl Answer for u32 {
    fn number(self) -> c_int {
        count(self as usize)
    }
}
