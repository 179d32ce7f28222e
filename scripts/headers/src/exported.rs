//! Expands the C library's `exported!` declarations, for cbindgen, which expands no macros.

use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{FnArg, GenericArgument, Item, PathArguments, TraitItemFn, Type, parse_quote};

/// Returns the code of a source file, with the functions that its `exported!` declares, with empty
/// bodies. Leaves other macros out.
///
/// # Errors
/// Fails if the file is not valid Rust, or a declaration is not one of `exported!`.
pub(crate) fn expand(text: &str) -> syn::Result<String> {
    let mut code = String::new();
    for item in syn::parse_file(text)?.items {
        match &item {
            Item::Macro(item) if item.mac.path.is_ident("exported") => {
                let declared: Declarations = item.mac.parse_body()?;
                declared.0.iter().for_each(|function| code += &exported(function));
            }
            Item::Macro(_) => {}
            _ => code += &item.to_token_stream().to_string(),
        }
        code += "\n";
    }
    Ok(code)
}

struct Declarations(Vec<TraitItemFn>);

impl Parse for Declarations {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut all = Vec::new();
        while !input.is_empty() {
            all.push(input.parse()?);
        }
        Ok(Self(all))
    }
}

fn exported(function: &TraitItemFn) -> String {
    let (about, name) = (&function.attrs, &function.sig.ident);
    let arguments = function.sig.inputs.iter().filter_map(|argument| match argument {
        FnArg::Typed(argument) => Some((&argument.pat, passed(&argument.ty))),
        FnArg::Receiver(_) => None,
    });
    let arguments = arguments.map(|(name, passed)| quote!(#name: #passed));
    let answer = function.default.as_ref().map(|_| quote!(-> c_int));
    let code = quote! {
        #(#about)*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn #name(#(#arguments),*) #answer {}
    };
    code.to_string()
}

/// Returns what C passes for an argument of this type: the library's `Argument::C`.
fn passed(argument: &Type) -> Type {
    match argument {
        Type::Reference(to) if to.elem == parse_quote!(str) => parse_quote!(*const c_char),
        Type::Reference(_) => parse_quote!(Option<#argument>),
        Type::Path(path) => match generic(path) {
            Some((name, of)) if name == "Out" => parse_quote!(Option<&mut MaybeUninit<#of>>),
            Some((name, of)) if name == "Option" => passed(of),
            Some((name, _)) if name == "Box" => parse_quote!(Option<#argument>),
            _ => argument.clone(),
        },
        _ => argument.clone(),
    }
}

/// Returns the parts of a type like `Box<T>`.
fn generic(path: &syn::TypePath) -> Option<(&syn::Ident, &Type)> {
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(of) => Some((&last.ident, of)),
        _ => None,
    }
}
