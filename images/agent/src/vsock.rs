//! The guest's end of a vsock device, for machines without virtio-serial ports (Cloud Hypervisor).

use std::io::{self, BufReader};

use vsock::{VMADDR_CID_ANY, VMADDR_CID_HOST, VsockListener, VsockStream};

use crate::protocol::VSOCK_PORT;
use crate::serve::serve;

/// Serves one connection of the host after another.
pub fn serve_all(name: &str) -> io::Result<()> {
    let listener = VsockListener::bind_with_cid_port(VMADDR_CID_ANY, VSOCK_PORT)?;
    loop {
        let (stream, peer) = listener.accept()?;
        // Processes of the guest can connect as well.
        if peer.cid() == VMADDR_CID_HOST {
            // An error ends only this connection.
            let _ = serve_one(stream, name);
        }
    }
}

fn serve_one(stream: VsockStream, name: &str) -> io::Result<()> {
    serve(BufReader::new(stream.try_clone()?), stream, name)
}
