//! SQLite: functions and busy handlers that suspend, while recursive locks of C are held.

use daiko_libraries::{FIBERS, everywhere, hundred, hundred_in};
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

#[test]
fn each_fiber_has_a_database_and_its_queries_suspend() {
    hundred(|member| {
        let connection = Connection::open_in_memory().unwrap();
        let suspends = |context: &mut rusqlite::functions::Context<'_>| {
            daiko::yield_now();
            context.get::<i64>(0)
        };
        connection
            .create_scalar_function("suspended", 1, FunctionFlags::SQLITE_UTF8, suspends)
            .unwrap();
        connection.execute_batch("CREATE TABLE t (x INTEGER)").unwrap();
        member.meet();
        for x in 0..10 {
            connection.execute("INSERT INTO t VALUES (?1)", [x * member.index as i64]).unwrap();
        }
        let sum =
            connection.query_row("SELECT sum(suspended(x)) FROM t", [], |row| row.get::<_, i64>(0));
        assert_eq!(sum.unwrap(), 45 * member.index as i64);
    });
}

#[test]
fn a_term_nested_900_deep_is_parsed() {
    hundred(|member| {
        let connection = Connection::open_in_memory().unwrap();
        member.meet();
        let term = "(".repeat(90) + "1" + &")".repeat(90);
        let sum = vec![term; 9].join(" + ");
        let deep = (0..900).fold("1".to_owned(), |text, _| text + "+1");
        for (text, expected) in [(sum, 9), (deep, 901)] {
            let row =
                connection.query_row(&format!("SELECT {text}"), [], |row| row.get::<_, i64>(0));
            assert_eq!(row.unwrap(), expected);
        }
    });
}

/// The busy handler runs inside SQLite, which holds the recursive lock of the connection.
#[test]
fn fibers_take_turns_in_a_database_file() {
    let folder = std::env::temp_dir().join(format!("daiko-libraries-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let mut run = 0;
    everywhere(|runtime, kind| {
        run += 1;
        let file = folder.join(format!("{run}.sqlite"));
        let setup = Connection::open(&file).unwrap();
        setup
            .execute_batch(
                "PRAGMA synchronous = OFF; CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (0)",
            )
            .unwrap();
        let path = file.clone();
        hundred_in(runtime, kind, move |member| {
            let mut connection = Connection::open(&path).unwrap();
            connection
                .busy_handler(Some(|_| {
                    daiko::yield_now();
                    true
                }))
                .unwrap();
            connection.execute_batch("PRAGMA synchronous = OFF").unwrap();
            member.meet();
            connection.execute_batch("BEGIN IMMEDIATE").unwrap();
            let n: i64 = connection.query_row("SELECT n FROM t", [], |row| row.get(0)).unwrap();
            daiko::yield_now();
            connection.execute("UPDATE t SET n = ?1", [n + 1]).unwrap();
            connection.execute_batch("COMMIT").unwrap();
        });
        let n: i64 = setup.query_row("SELECT n FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(n, FIBERS as i64);
    });
    std::fs::remove_dir_all(&folder).unwrap();
}
