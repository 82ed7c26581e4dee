//! Completions for shells, and manual pages: both are generated from the definitions of the command
//! line, so that there is no second table.

use std::{
    fs,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use clap_complete::Shell;
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};

use crate::{args, problem::Problem};

/// A word and its meaning, for sections that clap does not know.
type Row = (&'static str, &'static str);

const EXIT_STATUS: [Row; 6] = [
    ("0", "Success; also if the reader of standard output went away."),
    ("1", "The system refused a request, or a measurement went wrong."),
    ("2", "The command line cannot be carried out. One line on standard error says why."),
    ("3", "daiko deadlock has found a deadlock."),
    ("130", "An interrupt ended the command."),
    ("other", "daiko run and daiko pair have the exit code of the program that they start."),
];

const ENVIRONMENT: [Row; 9] = [
    ("DAIKO_WORKERS", "Number of workers, of 1 to 1024. Default: the number of allowed CPUs."),
    ("DAIKO_RUN", "With native, daiko run changes nothing: the program keeps its kernel threads."),
    ("DAIKO_STACK_SIZE", "Bytes of a fiber's stack, also as 256K or 1M."),
    ("DAIKO_DUMP", "With 1, SIGQUIT writes all fibers to standard error."),
    ("DAIKO_TRACK_LOCKS", "With 1, locks note their holder, for daiko deadlock."),
    (
        "DAIKO_THREAD_BLOCKS",
        "With home, each fiber has the thread-locals of a kernel thread that sleeps.",
    ),
    ("DAIKO_THREAD_REGISTER", "With arch_prctl, as on a processor without FSGSBASE."),
    ("DAIKO_USER_WAIT", "With 1, idle workers wait by umwait or mwaitx; see daiko doctor."),
    ("GLIBC_TUNABLES", "daiko run adds two settings, which executed programs inherit."),
];

/// Writes the script that completes command lines in `shell`.
pub(crate) fn completions(shell: Shell, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    out.write_all(&script(shell))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes manual pages and completions into `share`, the folder of an installation, at the places
/// where `man` and the shells look for them.
pub(crate) fn install(share: &Path) -> Result<ExitCode, Problem> {
    write_all(share).map_err(|error| {
        Problem::System(format!("cannot write below {}: {error}; name another", share.display()))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn write_all(share: &Path) -> io::Result<()> {
    let pages = share.join("man/man1");
    fs::create_dir_all(&pages)?;
    let definition = args::definition().disable_help_subcommand(true);
    clap_mangen::generate_to(definition.clone(), &pages)?;
    // The page of the command itself once more, with sections that clap does not know.
    let mut page = Vec::new();
    overview(definition, &mut page)?;
    fs::write(pages.join("daiko.1"), page)?;
    let places = [
        (Shell::Bash, "bash-completion/completions/daiko"),
        (Shell::Fish, "fish/vendor_completions.d/daiko.fish"),
        (Shell::Zsh, "zsh/site-functions/_daiko"),
    ];
    for (shell, place) in places {
        let file = share.join(place);
        fs::create_dir_all(file.parent().expect("a place in a folder"))?;
        fs::write(file, script(shell))?;
    }
    Ok(())
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::definition(), "daiko", &mut script);
    script
}

fn overview(mut definition: clap::Command, out: &mut Vec<u8>) -> io::Result<()> {
    definition.build();
    let page = Man::new(definition);
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    page.render_subcommands_section(out)?;
    section("EXIT STATUS", &EXIT_STATUS, out)?;
    section("ENVIRONMENT", &ENVIRONMENT, out)?;
    page.render_version_section(out)
}

fn section(title: &str, rows: &[Row], out: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for (word, meaning) in rows {
        roff.control("TP", []).text([bold(*word)]).text([roman(*meaning)]);
    }
    roff.to_writer(out)
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    /// Calls `visit` with the words of each visible command.
    fn each_command(command: &Command, words: &str, visit: &mut dyn FnMut(&Command, &str)) {
        visit(command, words);
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            each_command(command, &format!("{words}-{}", command.get_name()), visit);
        }
    }

    #[test]
    fn each_command_and_option_has_help_a_page_and_completions() {
        let share = tempfile::tempdir().expect("a folder");
        install(share.path()).expect("pages");
        let scripts = [Shell::Bash, Shell::Fish, Shell::Zsh]
            .map(|shell| String::from_utf8(script(shell)).expect("UTF-8"));
        let mut commands = 0;
        each_command(&args::definition(), "daiko", &mut |command, words| {
            commands += 1;
            assert!(command.get_about().is_some(), "{words}");
            let page = share.path().join(format!("man/man1/{words}.1"));
            let page = fs::read_to_string(page).expect(words);
            for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
                assert!(option.get_help().is_some(), "{words}: {option}");
                if let Some(name) = option.get_long() {
                    let escaped = format!("\\-\\-{}", name.replace('-', "\\-"));
                    assert!(page.contains(&escaped), "{words}: no {escaped} in its page");
                    for script in &scripts {
                        assert!(script.contains(name), "{words}: no --{name} in {script:.40}");
                    }
                }
            }
        });
        assert!(commands > 20, "{commands}");
    }

    #[test]
    fn the_overview_has_exit_codes_and_variables() {
        let mut page = Vec::new();
        overview(args::definition(), &mut page).expect("a page");
        let page = String::from_utf8(page).expect("UTF-8");
        for word in [".SH \"EXIT STATUS\"", ".SH ENVIRONMENT", "DAIKO_WORKERS", "130"] {
            assert!(page.contains(word), "{word} in {page}");
        }
    }
}
