//! The JSON object in `VFIO_USER_VERSION`.

use super::wire::{MAX_DATA, MAX_FDS};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why the version data of a client is refused.
#[derive(Debug, Error)]
pub enum CapabilitiesError {
    /// The protocol ends the JSON text with a NUL.
    #[error("version data of {0} bytes does not end with a NUL")]
    NoTerminator(usize),
    /// Not JSON, or a capability of a wrong type.
    #[error("version data is not a capabilities object: {0}")]
    Json(#[from] serde_json::Error),
    /// Mapped regions and guest memory need one file descriptor each.
    #[error("max_msg_fds is 0 (at least 1)")]
    NoFds,
}

/// What a side of the connection can do. Absent members have the protocol's defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// File descriptors that the sender takes with one message.
    pub max_msg_fds: u64,
    /// Bytes of data that the sender takes in one message.
    pub max_data_xfer_size: u64,
    /// DMA maps at one time.
    pub max_dma_maps: u64,
    /// Page sizes of DMA maps, or'ed together.
    pub pgsizes: u64,
    /// `REGION_WRITE_MULTI` is understood.
    pub write_multiple: bool,
}

impl Default for Capabilities {
    fn default() -> Self {
        Capabilities {
            max_msg_fds: 1,
            max_data_xfer_size: 1 << 20,
            max_dma_maps: 65_535,
            pgsizes: 4096,
            write_multiple: false,
        }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct VersionData {
    capabilities: Capabilities,
}

impl Capabilities {
    /// The capabilities in the data of a version message; none at all is fine.
    pub fn decode(data: &[u8]) -> Result<Self, CapabilitiesError> {
        if data.is_empty() {
            return Ok(Capabilities::default());
        }
        let Some((0, text)) = data.split_last() else {
            return Err(CapabilitiesError::NoTerminator(data.len()));
        };
        let capabilities = serde_json::from_slice::<VersionData>(text)?.capabilities;
        if capabilities.max_msg_fds == 0 {
            return Err(CapabilitiesError::NoFds);
        }
        Ok(capabilities)
    }

    /// The JSON text, without its NUL.
    pub fn encode(&self) -> String {
        let data = VersionData { capabilities: self.clone() };
        // Numbers and a boolean always make JSON; the empty text means "defaults" to the peer.
        serde_json::to_string(&data).unwrap_or_default()
    }

    /// What this server answers to a client with these capabilities: never more than the client
    /// proposed.
    pub(crate) fn answer(&self, max_dma_maps: usize) -> Capabilities {
        Capabilities {
            max_msg_fds: MAX_FDS as u64,
            max_data_xfer_size: MAX_DATA as u64,
            max_dma_maps: max_dma_maps as u64,
            pgsizes: 4096,
            write_multiple: self.write_multiple,
        }
    }
}
