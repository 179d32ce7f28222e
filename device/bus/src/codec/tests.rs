use super::*;
use proptest::prelude::*;

fn flags() -> impl Strategy<Value = MessageFlags> {
    prop_oneof![Just(MessageFlags::empty()), Just(MessageFlags::NO_REPLY)]
}

fn access(count: impl Strategy<Value = u32>) -> impl Strategy<Value = RegionAccess> {
    (any::<u64>(), any::<u32>(), count).prop_map(|(offset, region, count)| RegionAccess {
        offset,
        region,
        count,
    })
}

/// Generates valid requests, with the data that they borrow.
fn requests() -> impl Strategy<Value = (Request<'static>, Vec<u8>)> {
    let data = || proptest::collection::vec(any::<u8>(), 0..200);
    let map = (32..u32::MAX, any::<u32>(), any::<u64>(), any::<u64>(), any::<u64>());
    let unmap = (24..u32::MAX, any::<u32>(), any::<u64>(), any::<u64>());
    let four = || (16..u32::MAX, any::<u32>(), any::<u32>(), any::<u32>());
    let region = (32..u32::MAX, any::<u32>(), any::<u32>(), any::<u64>());
    let set = (20..u32::MAX, any::<[u32; 4]>());
    let write = (access(0..=8_u32), any::<[u8; 8]>()).prop_map(|(access, data)| WriteOne { access, data });
    let no_data = |request: Request<'static>| (request, Vec::new());
    prop_oneof![
        (any::<u16>(), any::<u16>(), data())
            .prop_map(|(major, minor, data)| (Request::Version(VersionNumbers { major, minor }, &[]), data)),
        map.prop_map(move |(argsz, flags, offset, address, size)| no_data(Request::DmaMap(DmaMap {
            argsz,
            flags,
            offset,
            address,
            size
        }))),
        unmap.prop_map(move |(argsz, flags, address, size)| no_data(Request::DmaUnmap(DmaUnmap {
            argsz,
            flags,
            address,
            size
        }))),
        four().prop_map(move |(argsz, flags, region_count, irq_count)| no_data(Request::DeviceGetInfo(
            DeviceInfo { argsz, flags, region_count, irq_count }
        ))),
        region.prop_map(move |(argsz, flags, index, size)| no_data(Request::DeviceGetRegionInfo(
            RegionInfo { argsz, flags, index, size, ..RegionInfo::default() }
        ))),
        four().prop_map(move |(argsz, flags, index, count)| no_data(Request::DeviceGetIrqInfo(IrqInfo {
            argsz,
            flags,
            index,
            count
        }))),
        four().prop_map(move |(argsz, flags, index, count)| no_data(Request::DeviceGetRegionIoFds(
            RegionIoFds { argsz, flags, index, count }
        ))),
        (set, data()).prop_map(|((argsz, [flags, index, start, count]), data)| {
            (Request::DeviceSetIrqs(IrqSet { argsz, flags, index, start, count }, &[]), data)
        }),
        access(0..=MAX_DATA as u32).prop_map(move |access| no_data(Request::RegionRead(access))),
        (access(Just(0)), data()).prop_map(|(access, data)| {
            (Request::RegionWrite(RegionAccess { count: data.len() as u32, ..access }, &[]), data)
        }),
        Just(no_data(Request::DeviceReset)),
        proptest::collection::vec(write, 0..20)
            .prop_map(move |writes| no_data(Request::RegionWriteMulti(writes))),
    ]
}

/// Returns the request with its data.
fn with_data<'a>(request: Request<'static>, data: &'a [u8]) -> Request<'a> {
    match request {
        Request::Version(numbers, _) => Request::Version(numbers, data),
        Request::DeviceSetIrqs(set, _) => Request::DeviceSetIrqs(set, data),
        Request::RegionWrite(access, _) => Request::RegionWrite(access, data),
        other => other,
    }
}

proptest! {
    #[test]
    fn encoded_request_decodes_to_itself((request, data) in requests(), id: u16, flags in flags()) {
        let request = with_data(request, &data);
        let bytes = request.encode(id, flags);
        let (header, body) = Header::read_from_prefix(&bytes).unwrap();
        prop_assert_eq!((header.id, header.size as usize, header.flags()), (id, bytes.len(), flags));
        prop_assert!(header.is_command());
        prop_assert_eq!(Request::decode(header.command, body), Ok(request));
    }

    #[test]
    fn any_bytes_are_a_request_or_an_error(command in 0_u16..24, body in proptest::collection::vec(any::<u8>(), 0..120)) {
        match Request::decode(command, &body) {
            Ok(request) => {
                let bytes = request.encode(0, MessageFlags::empty());
                prop_assert_eq!(&bytes[HEADER_SIZE..], &body[..]);
            }
            Err(error) => {
                prop_assert!(error.errno().raw_os_error() > 0);
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }

    #[test]
    fn a_request_of_a_wrong_length_is_refused((request, data) in requests(), cut in 1_usize..40) {
        // The protocol does not give a length for version data and interrupt data.
        prop_assume!(!matches!(request, Request::Version(..) | Request::DeviceSetIrqs(..)));
        let bytes = with_data(request.clone(), &data).encode(0, MessageFlags::empty());
        let body = &bytes[HEADER_SIZE..];
        let mut longer = body.to_vec();
        longer.extend(std::iter::repeat_n(0, cut));
        let command = request.command() as u16;
        prop_assert!(Request::decode(command, &longer).is_err());
        if cut <= body.len() {
            prop_assert!(Request::decode(command, &body[..body.len() - cut]).is_err());
        }
    }

    #[test]
    fn any_version_data_is_capabilities_or_an_error(data in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = Capabilities::decode(&data);
    }
}

#[test]
fn commands_have_the_numbers_of_the_protocol() {
    for command in Command::ALL {
        assert_eq!(Command::from_wire(*command as u16), Some(*command));
    }
    assert_eq!(Command::ALL.len(), 17);
    for unknown in [0, 14, 19, u16::MAX] {
        assert_eq!(Request::decode(unknown, &[]), Err(CodecError::UnknownCommand(unknown)));
    }
}

#[test]
fn server_and_migration_commands_are_unsupported() {
    for command in [11, 12, 16, 17, 18] {
        assert_eq!(Request::decode(command, &[0; 64]).unwrap_err().errno(), Errno::OPNOTSUPP);
    }
}

#[test]
fn data_beyond_the_negotiated_size_is_refused() {
    let access = RegionAccess { offset: 0, region: 0, count: MAX_DATA as u32 + 1 };
    let error = Request::decode(9, access.as_bytes()).unwrap_err();
    assert_eq!(error, CodecError::DataCount { command: Command::RegionRead, count: MAX_DATA as u32 + 1 });
    assert_eq!(error.errno(), Errno::TOOBIG);
}

#[test]
fn a_count_of_writes_that_overflows_is_refused() {
    let mut body = (u64::MAX / 8).to_ne_bytes().to_vec();
    body.extend([0; 24]);
    assert!(Request::decode(15, &body).is_err());
    let write = WriteOne { access: RegionAccess { count: 9, ..RegionAccess::default() }, data: [0; 8] };
    let mut body = 1_u64.to_ne_bytes().to_vec();
    body.extend(write.as_bytes());
    assert_eq!(Request::decode(15, &body), Err(CodecError::MultiWriteSize(9)));

    let many = |count: u64| [&count.to_ne_bytes()[..], &vec![0; count as usize * 24]].concat();
    assert!(Request::decode(15, &many(MAX_WRITES)).is_ok());
    let refused = Request::decode(15, &many(MAX_WRITES + 1)).unwrap_err();
    assert_eq!((refused, refused.errno()), (CodecError::MultiWrites(257), Errno::TOOBIG));
}

#[test]
fn replies_have_the_sizes_of_the_protocol() {
    let request = Header::new(7, 5, MessageFlags::empty());
    let areas = vec![SparseArea { offset: 0, size: 4096 }, SparseArea { offset: 8192, size: 4096 }];
    let reply = Reply::RegionInfo(RegionInfo::default(), areas).encode(&request);
    assert_eq!(reply.len(), 16 + 32 + 16 + 2 * 16);
    assert_eq!(reply.len() as u32, 16 + region_info_size(2));
    assert_eq!(reply[48..64], [1, 0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    let error = error_reply(&request, Errno::INVAL, None);
    assert_eq!(error, [7, 0, 5, 0, 16, 0, 0, 0, 0x21, 0, 0, 0, 22, 0, 0, 0]);
}

#[test]
fn capabilities_are_read_with_the_protocols_defaults() {
    let decode = |text: &str| Capabilities::decode(text.as_bytes());
    assert_eq!(decode("").unwrap(), Capabilities::default());
    assert_eq!(decode("{}\0").unwrap(), Capabilities::default());
    let some =
        decode("{\"capabilities\":{\"max_msg_fds\":16,\"write_multiple\":true,\"new\":{}}}\0").unwrap();
    assert_eq!((some.max_msg_fds, some.write_multiple, some.pgsizes), (16, true, 4096));
    assert!(matches!(decode("{}"), Err(CapabilitiesError::NoTerminator(2))));
    assert!(matches!(decode("\0"), Err(CapabilitiesError::Json(_))));
    assert!(matches!(decode("{\"capabilities\":3}\0"), Err(CapabilitiesError::Json(_))));
    assert!(matches!(decode("{\"capabilities\":{\"max_msg_fds\":-1}}\0"), Err(CapabilitiesError::Json(_))));
    assert!(matches!(decode("{\"capabilities\":{\"max_msg_fds\":0}}\0"), Err(CapabilitiesError::NoFds)));
}
