//! The JSON object in `VFIO_USER_VERSION`.

use super::wire::{MAX_DATA, MAX_FDS};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a client's version data is refused.
#[derive(Debug, Error)]
pub enum CapabilitiesError {
    /// The text is not terminated by a NUL, as the protocol requires.
    #[error("version data of {0} bytes does not end with a NUL")]
    NoTerminator(usize),
    /// The data is not JSON, or a capability has the wrong type.
    #[error("version data is not a capabilities object: {0}")]
    Json(#[from] serde_json::Error),
    /// The client accepts no file descriptors. Mapped regions and guest memory need one each.
    #[error("max_msg_fds is 0 (at least 1)")]
    NoFds,
}

/// The capabilities of one side of the connection. Absent members have the protocol's defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Maximum number of file descriptors that the sender accepts with one message.
    pub max_msg_fds: u64,
    /// Maximum number of bytes of data that the sender accepts in one message.
    pub max_data_xfer_size: u64,
    /// Maximum number of DMA maps at a time.
    pub max_dma_maps: u64,
    /// Bit mask of the page sizes of DMA maps.
    pub pgsizes: u64,
    /// Whether `REGION_WRITE_MULTI` is supported.
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
    /// Decodes the data of a version message. Empty data is valid.
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

    /// Encodes the JSON text, without the terminating NUL.
    pub fn encode(&self) -> String {
        let data = VersionData { capabilities: self.clone() };
        // Numbers and a boolean always convert to JSON. An empty text means "defaults" to the peer.
        serde_json::to_string(&data).unwrap_or_default()
    }

    /// Returns this server's answer to a client with these capabilities, which never exceeds the
    /// client's proposal.
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
