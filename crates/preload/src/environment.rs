//! The environment that programs inherit which this one executes.

use std::ffi::{CStr, c_char};

const PRELOAD: &[u8] = b"LD_PRELOAD=";
/// The variable that lets executed programs inherit this library, if it is 1.
const FOLLOW: &CStr = c"DAIKO_RUN_FOLLOW";

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// Removes this library, which lies at `own`, from `LD_PRELOAD` in the environment of this process.
/// A variable that becomes empty is removed. No memory is allocated: the program's own allocator
/// may not be ready.
///
/// # Safety
///
/// No other thread uses the environment.
pub(crate) unsafe fn leave(own: &CStr) {
    // SAFETY: by this function's contract. Values end with zero.
    unsafe {
        let follow = libc::getenv(FOLLOW.as_ptr());
        if follow.is_null() || CStr::from_ptr(follow) != c"1" {
            remove(environ, own.to_bytes());
        }
    }
}

/// Removes `own` from the variable in a list of variables, each in writable memory.
unsafe fn remove(list: *mut *mut c_char, own: &[u8]) {
    if list.is_null() {
        return;
    }
    let mut place = list;
    // SAFETY: the list ends with a null pointer, and its strings with zero. `shorten` keeps that.
    unsafe {
        while !(*place).is_null() {
            let variable = *place;
            let text = CStr::from_ptr(variable).to_bytes();
            if text.starts_with(PRELOAD) {
                let value = variable.add(PRELOAD.len()).cast::<u8>();
                let size = text.len() - PRELOAD.len();
                let left = shorten(std::slice::from_raw_parts_mut(value, size), own);
                *value.add(left) = 0;
                if left == 0 {
                    drop_entry(place);
                    continue;
                }
            }
            place = place.add(1);
        }
    }
}

/// Moves the entries behind `place` to the front by one.
unsafe fn drop_entry(mut place: *mut *mut c_char) {
    // SAFETY: the list ends with a null pointer, which is moved as well.
    unsafe {
        while !(*place).is_null() {
            *place = *place.add(1);
            place = place.add(1);
        }
    }
}

/// Removes all elements that equal `own` from a value of `LD_PRELOAD`, each with the separator
/// behind it, or else the separator before. Returns the size that is left.
fn shorten(value: &mut [u8], own: &[u8]) -> usize {
    let is_separator = |byte: u8| byte == b':' || byte == b' ';
    let mut size = value.len();
    let mut start = 0;
    while start <= size {
        let rest = &value[start..size];
        let end = start + rest.iter().position(|&byte| is_separator(byte)).unwrap_or(rest.len());
        if &value[start..end] != own {
            start = end + 1;
        } else if end < size {
            value.copy_within(end + 1..size, start);
            size -= end + 1 - start;
        } else {
            return start.saturating_sub(1);
        }
    }
    size
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    /// The strings of an environment without `/d/own.so`.
    fn without(variables: &[&str]) -> Vec<String> {
        let mut strings: Vec<Vec<u8>> =
            variables.iter().map(|text| [text.as_bytes(), b"\0"].concat()).collect();
        let mut list: Vec<*mut c_char> =
            strings.iter_mut().map(|string| string.as_mut_ptr().cast()).collect();
        list.push(ptr::null_mut());
        // SAFETY: a list of live strings that ends with null.
        unsafe { remove(list.as_mut_ptr(), b"/d/own.so") };
        let left = list.iter().take_while(|place| !place.is_null());
        // SAFETY: each ends with zero.
        left.map(|&string| unsafe { CStr::from_ptr(string) }.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_variable_that_names_this_library_only_is_removed() {
        assert_eq!(without(&["A=1", "LD_PRELOAD=/d/own.so", "B=2"]), ["A=1", "B=2"]);
        assert_eq!(without(&["LD_PRELOAD=/d/own.so"]), [""; 0]);
        assert_eq!(without(&["LD_PRELOAD=/d/own.so:/d/own.so", "B=2"]), ["B=2"]);
        // As `execve` hands on its arguments.
        assert_eq!(without(&["LD_PRELOAD=/d/own.so", "LD_PRELOAD=/d/own.so"]), [""; 0]);
    }

    #[test]
    fn other_libraries_stay_in_their_order() {
        for (before, after) in [
            ("/d/own.so:a.so", "a.so"),
            ("a.so:/d/own.so", "a.so"),
            ("a.so:/d/own.so:b.so", "a.so:b.so"),
            ("a.so /d/own.so b.so", "a.so b.so"),
            ("/d/own.so:a.so:/d/own.so b.so:/d/own.so", "a.so:b.so"),
            ("/d/own.so:", ""),
        ] {
            let left = without(&[&format!("LD_PRELOAD={before}"), "B=2"]);
            let expected = [format!("LD_PRELOAD={after}"), "B=2".to_owned()];
            let expected = if after.is_empty() { &expected[1..] } else { &expected };
            assert_eq!(left, expected, "{before}");
        }
    }

    #[test]
    fn an_environment_without_this_library_is_not_changed() {
        for text in ["/d/own.so.1", "d/own.so", "own.so", "/d/own.so2:a//d/own.so", "a: b", ""] {
            let variables =
                [&*format!("LD_PRELOAD={text}"), "LD_PRELOADED=/d/own.so", "X=/d/own.so"];
            let expected = if text.is_empty() { &variables[1..] } else { &variables };
            assert_eq!(without(&variables), expected);
        }
        assert_eq!(without(&[]), [""; 0]);
    }
}
