//! Sessions of rustls between fibers, over sockets.

use std::io::{Read, Write};
use std::sync::Arc;

use daiko::Builder;
use daiko::net::{TcpListener, TcpStream};
use daiko_libraries::everywhere;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};

const SESSIONS: usize = 50;

/// Returns both configurations, with a certificate that the server has signed itself.
fn configurations() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(own.cert.der().clone()).unwrap();
    let server = ServerConfig::builder().with_no_client_auth();
    let server = server.with_single_cert(vec![own.cert.der().clone()], key).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    (Arc::new(server), Arc::new(client))
}

fn serve(stream: TcpStream, configuration: Arc<ServerConfig>) {
    let mut session = StreamOwned::new(ServerConnection::new(configuration).unwrap(), stream);
    let mut request = [0; 4000];
    session.read_exact(&mut request).unwrap();
    request.reverse();
    session.write_all(&request).unwrap();
    session.conn.send_close_notify();
    session.flush().unwrap();
}

fn ask(index: usize, stream: TcpStream, configuration: Arc<ClientConfig>) {
    let name = ServerName::try_from("localhost").unwrap();
    let mut session = StreamOwned::new(ClientConnection::new(configuration, name).unwrap(), stream);
    let mut text: Vec<u8> = (0..4000).map(|byte| (byte * (index + 3)) as u8).collect();
    session.write_all(&text).unwrap();
    let mut answer = Vec::new();
    session.read_to_end(&mut answer).unwrap();
    text.reverse();
    assert_eq!(answer, text);
}

#[test]
fn clients_and_servers_of_rustls_are_fibers() {
    let (server, client) = configurations();
    everywhere(|runtime, kind| {
        let (server, client) = (server.clone(), client.clone());
        let all = move || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let spawn =
                |builder: Builder, body: Box<dyn FnOnce() + Send>| builder.spawn(body).unwrap();
            let mut fibers = Vec::new();
            for index in 0..SESSIONS {
                let client = client.clone();
                let body = move || ask(index, TcpStream::connect(address).unwrap(), client);
                fibers.push(spawn(kind(), Box::new(body)));
            }
            for _ in 0..SESSIONS {
                let (stream, server) = (listener.accept().unwrap().0, server.clone());
                fibers.push(spawn(kind(), Box::new(move || serve(stream, server))));
            }
            for fiber in fibers {
                fiber.join().unwrap();
            }
        };
        runtime.spawn_with(kind(), all).unwrap().join().unwrap();
    });
}
