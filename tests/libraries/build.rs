//! Compiles the C and C++ files that the tests call.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(no_cxx)");
    for file in ["values.c", "objects.cpp"] {
        println!("cargo::rerun-if-changed=c/{file}");
    }
    cc::Build::new().file("c/values.c").compile("daiko_values");
    let mut objects = cc::Build::new();
    if objects.cpp(true).file("c/objects.cpp").try_compile("daiko_objects").is_err() {
        println!("cargo::rustc-cfg=no_cxx");
    }
}
