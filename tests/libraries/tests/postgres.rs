//! tokio-postgres in fibers, with a PostgreSQL server that the test starts.

use std::io::Write;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use daiko::block_on;
use daiko::future::with_tokio;
use daiko_libraries::{everywhere, hundred_in};
use tokio_postgres::{Client, NoTls};

/// A server that listens on a socket in a folder of its own.
struct Server {
    postmaster: Child,
    folder: PathBuf,
}

/// The account that runs the server: PostgreSQL refuses root.
type Account = Option<(u32, u32)>;

impl Server {
    /// Starts a server, or returns the reason why there is none.
    fn start() -> Result<Self, String> {
        let programs = programs().ok_or("PostgreSQL's server is not installed: postgresql")?;
        let account = account()?;
        let folder = std::env::temp_dir().join(format!("daiko-postgres-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        if let Some((user, group)) = account {
            chown(&folder, Some(user), Some(group)).unwrap();
        }
        let data = folder.join("data");
        let mut initdb = command(&programs.join("initdb"), account);
        initdb.args(["--no-sync", "--auth=trust", "--username=daiko", "--pgdata"]).arg(&data);
        let made = initdb.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut postmaster = command(&programs.join("postgres"), account);
        postmaster.arg("-D").arg(&data).arg("-k").arg(&folder);
        postmaster.args([
            "-c",
            "listen_addresses=",
            "-c",
            "fsync=off",
            "-c",
            "max_connections=150",
        ]);
        let log = std::fs::File::create(folder.join("log")).unwrap();
        postmaster.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Ok(Server { postmaster: postmaster.spawn().unwrap(), folder })
    }

    /// Connects a client, as soon as the server is up.
    async fn connect(folder: PathBuf) -> Client {
        loop {
            let mut config = tokio_postgres::Config::new();
            config.host_path(&folder).user("daiko").dbname("postgres");
            match config.connect(NoTls).await {
                Ok((client, connection)) => {
                    tokio::spawn(connection);
                    return client;
                }
                // Not up yet.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: it takes plain integers; the child was not waited for, so the id is its own.
        unsafe { libc::kill(self.postmaster.id() as i32, libc::SIGQUIT) };
        let ended = self.postmaster.wait();
        if std::thread::panicking() || ended.is_err() {
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            let _ = std::io::stderr().write_all(log.as_bytes());
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn command(program: &Path, account: Account) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/");
    if let Some((user, group)) = account {
        command.uid(user).gid(group);
    }
    command
}

/// Returns the folder of the server's programs.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.flatten().map(|version| version.path().join("bin"));
    folders.filter(|folder| folder.join("initdb").exists()).max()
}

fn account() -> Result<Account, String> {
    // SAFETY: it has no precondition.
    if unsafe { libc::geteuid() } != 0 {
        return Ok(None);
    }
    // SAFETY: the name is a string of C, and no other thread of this test asks for accounts.
    let entry = unsafe { libc::getpwnam(c"postgres".as_ptr()).as_ref() };
    let entry = entry.ok_or("root may not run PostgreSQL, and there is no user postgres")?;
    Ok(Some((entry.pw_uid, entry.pw_gid)))
}

#[test]
fn a_hundred_fibers_query_a_server() {
    let server = match Server::start() {
        Ok(server) => server,
        Err(why) => return println!("skipped: {why}"),
    };
    let mut tokio = tokio::runtime::Builder::new_multi_thread();
    let tokio = tokio.worker_threads(1).enable_all().build().unwrap();
    let handle = tokio.handle().clone();
    let folder = server.folder.clone();
    let setup = block_on(with_tokio(&handle, Server::connect(folder.clone())));
    let create = "CREATE TABLE numbers (fiber int8, number int8)";
    block_on(setup.batch_execute(create)).unwrap();
    let setup = Arc::new(setup);
    everywhere(|runtime, kind| {
        let (handle, folder, shared) = (handle.clone(), folder.clone(), setup.clone());
        let sums = hundred_in(runtime, kind, move |member| {
            let own = member.index as i64;
            let client = block_on(with_tokio(&handle, Server::connect(folder.clone())));
            member.meet();
            // The connection runs in a task of tokio; the client itself needs no context.
            block_on(async {
                let insert = client.prepare("INSERT INTO numbers VALUES ($1, $2)").await.unwrap();
                for number in 0..5_i64 {
                    assert_eq!(client.execute(&insert, &[&own, &number]).await.unwrap(), 1);
                }
            });
            member.meet();
            // All fibers share one connection, which sends their queries without a wait.
            let sum = "SELECT sum(number)::int8 FROM numbers WHERE fiber = $1";
            block_on(shared.query_one(sum, &[&own])).unwrap().get::<_, i64>(0)
        });
        assert!(sums.into_iter().all(|sum| sum == 10));
        block_on(setup.batch_execute("TRUNCATE numbers")).unwrap();
    });
}
