//! Attachment through the driver: `/dev/<model>N`, the node of any card.

use std::fmt::Display;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hamlyn_abi::family::area::ULN_MAX_AREA;
use hamlyn_abi::uapi::{
    CardArgument, ULN_MAX_CONNECTIONS, ULN_SHARE_CONNECTIONS, ULN_UAPI_VERSION, ULN_WAIT_FOREVER,
    UlnExpressQuery, UlnListen, UlnObjectFile, UlnQuery, UlnSelfTest, UlnShareQuery, UlnStatistics,
};
use hamlyn_sys::{Access, Device, Mapping};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use zerocopy::FromZeros;

use crate::core::attach::{
    CONNECTIONS_REMEDY, CardAttachment, ConnectionParts, ExpressParts, ListenerParts, NO_FILES, NO_QUESTIONS,
    QueueFile, check_version,
};
use crate::core::memory::Memory;
use crate::core::model::Model;
use crate::error::{CONNECTIONS, Error, GivenBack, Result, at_most};

mod connection;
mod express;

const TOO_OLD: &str = "this machine's driver does not know the call: it is too old, or the card is another";

/// An open node of a card of model `M`: one protection domain.
#[derive(Debug)]
pub struct Node<M> {
    device: Device,
    path: PathBuf,
    model: PhantomData<M>,
}

impl<M: Model> Node<M> {
    /// Opens the node at `path`.
    ///
    /// # Errors
    /// [`Error::System`] if it cannot be opened, [`Error::Incompatible`] if its driver has another
    /// major version, [`Error::OtherModel`] if its card is of another model.
    pub fn open(path: &Path) -> Result<Self> {
        let node = Self::unchecked(path)?;
        check::<M>(&node.path, &node.query()?)?;
        Ok(node)
    }

    /// Opens the node without checking version and model.
    pub(crate) fn unchecked(path: &Path) -> Result<Self> {
        let device = Device::open(path).map_err(Error::system(format!("open {}", path.display())))?;
        Ok(Self { device, path: path.to_path_buf(), model: PhantomData })
    }

    /// Opens `/dev/<model>N`.
    ///
    /// # Errors
    /// Those of [`Node::open`].
    pub fn open_number(number: u32) -> Result<Self> {
        Self::open(Path::new(&format!("/dev/{}{number}", M::NAME)))
    }

    /// Makes a model-specific call (`hamlyn_abi::uapi::card_call`). Caller memory that the argument
    /// refers to must lie in `memory`.
    ///
    /// # Errors
    /// [`Error::System`] with the action, [`Error::Unsupported`] if the driver does not know the
    /// call.
    pub fn call<const CODE: u32, T: CardArgument>(
        &self,
        action: &str,
        argument: &mut T,
        memory: &[&Memory],
    ) -> Result<()> {
        self.make::<CODE, T>(argument, memory, self.error(action))
    }

    /// As [`Node::call`], for a call that creates a shared resource of this `ULN_SHARE_*`.
    ///
    /// # Errors
    /// Those of [`Node::call`]; [`Error::Exhausted`], [`Error::Quota`].
    pub fn create<const CODE: u32, T: CardArgument>(
        &self,
        action: &str,
        kind: u32,
        argument: &mut T,
        memory: &[&Memory],
    ) -> Result<()> {
        self.make::<CODE, T>(argument, memory, self.create_error(action, kind))
    }

    fn make<const CODE: u32, T: CardArgument>(
        &self,
        argument: &mut T,
        memory: &[&Memory],
        refused: impl FnOnce(io::Error) -> Error,
    ) -> Result<()> {
        let mappings: Vec<&Mapping> = memory.iter().map(|memory| &**memory.mapping()).collect();
        match self.device.card_call::<CODE, T>(argument, &mappings) {
            Err(error) if is(&error, Errno::NOTTY) => Err(Error::Unsupported(TOO_OLD)),
            result => result.map_err(refused),
        }
    }

    /// Maps `length` bytes at an offset from the driver.
    ///
    /// # Errors
    /// [`Error::System`] with the name of the object.
    pub fn map(&self, what: &str, offset: u64, length: usize, access: Access) -> Result<Arc<Mapping>> {
        let mapping =
            self.device.map(offset, length, access).map_err(self.error(format!("map the {what}")))?;
        Ok(Arc::new(mapping))
    }

    /// Maps several parts at offsets from the driver, each an offset and a length, contiguously.
    ///
    /// # Errors
    /// [`Error::System`] with the name of the object.
    pub fn map_parts(&self, what: &str, parts: &[(u64, usize)], access: Access) -> Result<Arc<Mapping>> {
        let mapping = self.device.map_parts(parts, access).map_err(self.error(format!("map the {what}")))?;
        Ok(Arc::new(mapping))
    }

    /// Returns the file to poll for whatever was armed.
    pub fn file(&self) -> QueueFile<'_> {
        QueueFile::Borrowed(self.device.as_fd())
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Adds the action and this device's path to an error.
    pub(crate) fn error(&self, action: impl Display) -> impl FnOnce(io::Error) -> Error {
        Error::system(format!("{action} of {}", self.path.display()))
    }

    /// Returns the error of a failed creation. Names the resource (`ULN_SHARE_*`) if the card's
    /// supply or the user's share is used up, otherwise the action.
    pub(crate) fn create_error(&self, action: impl Display, kind: u32) -> impl FnOnce(io::Error) -> Error {
        move |error| match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::DQUOT) => self.quota(kind, error, &action),
            Some(Errno::NOSPC) => self.none_left(kind, error, &action),
            _ => self.error(action)(error),
        }
    }

    fn listen_with(&self, name: &str, mut argument: UlnListen) -> Result<Box<dyn ListenerParts>> {
        let action = format!("take the name {name:?}");
        let file = self.device.listen(&mut argument);
        Ok(Box::new(file.map_err(self.create_error(action, ULN_SHARE_CONNECTIONS))?))
    }

    /// Returns [`Error::Locked`] if these bytes exceed what the process may lock.
    pub(crate) fn memory_error(
        &self,
        bytes: u64,
        action: String,
        other: impl FnOnce(io::Error) -> Error,
    ) -> impl FnOnce(io::Error) -> Error {
        let action = format!("{action} of {}", self.path.display());
        move |error| match getrlimit(Resource::Memlock).current {
            Some(limit) if is(&error, Errno::NOMEM) => Error::Locked { action, bytes, limit },
            _ => other(error),
        }
    }

    fn quota(&self, kind: u32, error: io::Error, action: &dyn Display) -> Error {
        let mut share = UlnShareQuery::default();
        let Some(object) = shared::<M>(kind) else { return self.error(action)(error) };
        if self.device.share(&mut share).is_err() {
            return self.error(action)(error);
        }
        let kind = kind as usize;
        // Another process may have released some meanwhile.
        let (held, limit) = (share.held[kind], share.limit[kind].min(share.held[kind]));
        Error::Quota { object, user: share.user, held, limit }
    }

    fn none_left(&self, kind: u32, error: io::Error, action: &dyn Display) -> Error {
        if kind == ULN_SHARE_CONNECTIONS {
            return connections_left();
        }
        match (M::SHARED.get(kind as usize), self.query()) {
            (Some(shared), Ok(card)) => {
                let (object, remedy) = (shared.object, shared.remedy);
                Error::Exhausted { object, limit: (shared.limit)(&card), remedy }
            }
            _ => self.error(action)(error),
        }
    }
}

/// Returns the error for a driver that has no connections left.
pub(crate) fn connections_left() -> Error {
    Error::Exhausted { object: CONNECTIONS, limit: ULN_MAX_CONNECTIONS, remedy: CONNECTIONS_REMEDY }
}

/// Returns the name of the shared resource with this `ULN_SHARE_*`.
fn shared<M: Model>(kind: u32) -> Option<&'static str> {
    match kind {
        ULN_SHARE_CONNECTIONS => Some(CONNECTIONS),
        kind => M::SHARED.get(kind as usize).map(|shared| shared.object),
    }
}

/// Fails if the driver has another major version, or the card is of another model.
fn check<M: Model>(node: &Path, query: &UlnQuery) -> Result<()> {
    check_version("driver version", query.uapi_version, ULN_UAPI_VERSION)?;
    check_model::<M>(&node.display().to_string(), query.model)
}

/// Fails if the card is of another model.
pub(crate) fn check_model<M: Model>(node: &str, model: u32) -> Result<()> {
    if model != M::NUMBER {
        let node = node.to_owned();
        return Err(Error::OtherModel { node, model, name: M::NAME, expected: M::NUMBER });
    }
    Ok(())
}

impl<M: Model> CardAttachment for Node<M> {
    fn query(&self) -> Result<UlnQuery> {
        let mut query = UlnQuery::default();
        self.device.query(&mut query).map_err(self.error("ask for a description"))?;
        Ok(query)
    }

    fn allocate(&self, length: usize) -> Result<Memory> {
        at_most("memory length", length as u64, ULN_MAX_AREA)?;
        Memory::anonymous(length).map_err(Error::system(format!("map {length} bytes")))
    }

    /// The driver can pin any memory of the process.
    fn lend(&self, mapping: Mapping) -> Result<Memory, GivenBack<Mapping>> {
        let length = mapping.length();
        Ok(Memory::local(mapping, length))
    }

    fn statistics(&self) -> Result<UlnStatistics> {
        let mut statistics = UlnStatistics::new_zeroed();
        self.device.statistics(&mut statistics).map_err(self.error("read the counters"))?;
        Ok(statistics)
    }

    fn self_test(&self) -> Result<UlnSelfTest> {
        let mut results = UlnSelfTest::default();
        self.device.self_test(&mut results).map_err(self.error("run the self-tests"))?;
        Ok(results)
    }

    fn listen(&self, name: &str, backlog: u32) -> Result<Box<dyn ListenerParts>> {
        self.listen_with(name, connection::listen(name, backlog, None))
    }

    fn listen_as_socket(
        &self,
        name: &str,
        socket: BorrowedFd<'_>,
        backlog: u32,
    ) -> Result<Box<dyn ListenerParts>> {
        self.listen_with(name, connection::listen(name, backlog, Some(socket)))
    }

    fn connect(&self, host: u32, name: &str, private: &[u8]) -> Result<Box<dyn ConnectionParts>> {
        let mut argument = connection::connect(host, name, private);
        let action = format!("connect to {name:?} on host {host}");
        let file = self.device.connect(&mut argument);
        Ok(Box::new(file.map_err(self.create_error(action, ULN_SHARE_CONNECTIONS))?))
    }

    fn ask(&self, host: u32, name: &str) -> Result<Box<dyn ConnectionParts>> {
        let mut argument = connection::connect(host, name, b"");
        let action = format!("ask for {name:?} on host {host}");
        match self.device.ask(&mut argument) {
            Ok(file) => Ok(Box::new(file)),
            // An older driver does not know the call.
            Err(error) if is(&error, Errno::NOTTY) => Err(Error::Unsupported(NO_QUESTIONS)),
            Err(error) => Err(self.create_error(action, ULN_SHARE_CONNECTIONS)(error)),
        }
    }

    fn object_file(&self, offset: u64, what: u64) -> Result<OwnedFd> {
        match self.device.object_file(&mut UlnObjectFile { offset, what }) {
            // An older driver does not know the call.
            Err(error) if is(&error, Errno::NOTTY) => Err(Error::Unsupported(NO_FILES)),
            file => file.map_err(self.error("open a file for an object")),
        }
    }

    fn create_express(&self, host: u32, length: usize) -> Result<ExpressParts> {
        express::create(self, host, length)
    }

    fn map_express(&self, host: u32, area: u32, key: u64) -> Result<ExpressParts> {
        express::map(self, host, area, key)
    }

    fn destroy_express(&self, number: u32) -> Result<()> {
        express::destroy(self, number)
    }

    fn query_express(&self, host: u32) -> Result<UlnExpressQuery> {
        express::query(self, host)
    }
}

/// Converts a timeout to the driver's format.
pub(crate) fn nanoseconds(timeout: Option<Duration>) -> i64 {
    timeout.map_or(ULN_WAIT_FOREVER, |limit| i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX))
}

pub(crate) fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

#[cfg(test)]
mod tests {
    use hamlyn_abi::uapi::{ULN_CAPABILITY_CONNECTIONS, UlnObject, card_call};
    use zerocopy::{Immutable, IntoBytes};

    use super::*;
    use crate::core::model::Shared;

    /// A model that does not exist.
    #[derive(Debug)]
    enum Kite {}

    impl Model for Kite {
        const NUMBER: u32 = 9;
        const NAME: &'static str = "kite";
        const VERSION: u32 = 0x0001_0000;
        const SHARED: &'static [Shared] = &[Shared { object: "strings", remedy: "cut some", limit: |_| 3 }];
    }

    const FLY: u32 = card_call::<UlnObject>(Kite::NUMBER, 0);
    const HOLD: u32 = card_call::<Hold>(Kite::NUMBER, 1);

    #[derive(Debug, zerocopy::FromBytes, IntoBytes, Immutable)]
    #[repr(C)]
    struct Hold {
        address: u64,
        length: u64,
    }

    impl CardArgument for Hold {
        fn names(&self, piece: &mut dyn FnMut(u64, u64)) {
            piece(self.address, self.length);
        }
    }

    /// A node whose driver knows no calls.
    fn deaf() -> Node<Kite> {
        Node::unchecked(Path::new("/dev/null")).unwrap()
    }

    fn query(uapi_version: u32, model: u32) -> UlnQuery {
        UlnQuery { uapi_version, model, ..UlnQuery::default() }
    }

    #[test]
    fn minor_versions_are_accepted_other_majors_refused() {
        let node = Path::new("/dev/kite0");
        for minor in [0, 1, 4, 0xffff] {
            let today = query(0x0002_0000 | minor, 9);
            check::<Kite>(node, &today).unwrap();
            check::<Kite>(node, &UlnQuery { capabilities: ULN_CAPABILITY_CONNECTIONS | 1 << 60, ..today })
                .unwrap();
        }
        let refusal = |version| check::<Kite>(node, &query(version, 9)).unwrap_err();
        assert_eq!(
            refusal(0x0003_0001).to_string(),
            "driver version 3.1 is not what this library knows (2.0)"
        );
        let old = refusal(0x0001_0004);
        assert_eq!(old.to_string(), "driver version 1.4 is not what this library knows (2.0)");
        assert_eq!(old.kind(), crate::error::ErrorKind::Unsupported);
    }

    #[test]
    fn other_model_is_refused_with_both_names() {
        let refused = check::<Kite>(Path::new("/dev/hamlyn3"), &query(ULN_UAPI_VERSION, 1)).unwrap_err();
        assert_eq!(refused.to_string(), "/dev/hamlyn3 is a card of model 1, not of model 9 (kite)");
        assert_eq!(refused.kind(), crate::error::ErrorKind::Unsupported);
    }

    #[test]
    fn node_path_has_model_name_and_number() {
        let missing = Node::<Kite>::open_number(4_000_000_000).unwrap_err().to_string();
        assert!(missing.starts_with("cannot open /dev/kite4000000000: "), "{missing}");
    }

    #[test]
    fn unknown_call_is_unsupported() {
        let node = deaf();
        let mut object = UlnObject::default();
        let call = node.call::<FLY, _>("fly", &mut object, &[]).unwrap_err();
        assert!(matches!(call, Error::Unsupported(_)), "{call}");
        let create = node.create::<FLY, _>("fly", 0, &mut object, &[]).unwrap_err();
        assert!(matches!(create, Error::Unsupported(_)), "{create}");
        assert!(matches!(node.ask(1, "name"), Err(Error::Unsupported(_))));
    }

    #[test]
    fn call_refuses_memory_that_was_not_lent() {
        let (node, memory) = (deaf(), deaf().allocate(64).unwrap());
        let hold = |address, length, memory: &[&Memory]| {
            node.call::<HOLD, _>("hold", &mut Hold { address, length }, memory).unwrap_err()
        };
        let address = memory.card_address();
        assert!(matches!(hold(address, 64, &[&memory]), Error::Unsupported(_)), "the driver was asked");
        for (address, length, lent) in
            [(address, 64, &[][..]), (address - 1, 64, &[&memory]), (address, 1 << 30, &[&memory])]
        {
            let refused = hold(address, length, lent);
            assert_eq!(refused.to_string(), "cannot hold of /dev/null: Invalid argument (os error 22)");
        }
    }

    #[test]
    fn exhausted_resource_is_named_by_model() {
        let node = deaf();
        let refused = |errno: Errno, kind| node.create_error("fly", kind)(errno.into()).to_string();
        assert!(refused(Errno::NOSPC, ULN_SHARE_CONNECTIONS).starts_with("all 16384 connections and names"));
        // The device does not even answer a query.
        assert!(refused(Errno::NOSPC, 0).starts_with("cannot fly of /dev/null: No space left"));
        assert_eq!((shared::<Kite>(0), shared::<Kite>(1)), (Some("strings"), None));
        assert_eq!(shared::<Kite>(ULN_SHARE_CONNECTIONS), Some(CONNECTIONS));
    }
}
