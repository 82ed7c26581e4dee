use super::*;

fn program(name: &str) -> &'static Program {
    const { programs::ALL }.iter().find(|program| program.name == name).expect("of the list")
}

/// The verdict, if this machine has what it needs.
fn judged(name: &str, method: &str) -> Option<Verdict> {
    if let Err(skip) = program(name).is_there() {
        println!("skipped: {name}: {}", skip.reason);
        return None;
    }
    match judge(program(name), method) {
        Ok(verdict) => Some(verdict),
        Err(Failure::Unavailable(why)) => {
            println!("skipped: {name}: {why}");
            None
        }
        Err(failure) => panic!("{name}: {failure}"),
    }
}

#[test]
fn every_program_prepares_and_goes_on() {
    for program in programs::ALL.iter().filter(|program| program.is_there().is_ok()) {
        let running =
            Running::start(program).unwrap_or_else(|failure| panic!("{}: {failure}", program.name));
        running.is_there_still().unwrap();
    }
}

#[test]
fn print_training_half() {
    let half = std::env::var("HALF").unwrap_or("training".into());
    for program in programs::ALL
        .iter()
        .filter(|p| p.half().name() == half)
        .filter(|p| std::env::var("ONLY").map_or(true, |o| p.name.contains(&o)))
    {
        for _ in 0..std::env::var("N").map_or(3, |n| n.parse().unwrap()) {
            if let Some(v) = judged(program.name, SAMPLING) {
                println!(
                    "{} {:<22} {:<8} {:<8} {:.2} {}",
                    if v.class == program.label { "ok " } else { "BAD" },
                    program.name,
                    class_name(program.label),
                    class_name(v.class),
                    v.confidence,
                    v.why
                );
            }
        }
    }
}
