//! Messages of any type on their way through tonic, whose clients and servers are generic in the
//! messages of a call and would be compiled for each method in each crate. With this codec all
//! messages have the same types.

use prost::{
    Message,
    bytes::{Buf, Bytes},
};
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

/// A message of any type that can be encoded.
pub(crate) trait Encode {
    fn encode_to(&self, buffer: &mut EncodeBuf<'_>) -> Result<(), Status>;
}

pub(crate) type Encoded = Box<dyn Encode + Send + Sync>;

impl<M: Message> Encode for M {
    fn encode_to(&self, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        self.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}

/// A message of a call. The build implements it for each message, so that all are compiled once, in
/// this crate: generic code is compiled in each crate that uses it.
pub(crate) trait CallMessage: Sized + 'static {
    /// Erases the type of the message.
    fn encoded(self) -> Encoded;

    fn decoded(bytes: Bytes) -> Result<Self, Status>;
}

/// Decodes a message. Errors are those of tonic's decoder.
pub(crate) fn decode<M: Message + Default>(bytes: Bytes) -> Result<M, Status> {
    M::decode(bytes).map_err(|error| Status::internal(error.to_string()))
}

/// A codec of messages of any type, which the caller decodes.
pub(crate) struct AnyMessage;

impl Codec for AnyMessage {
    type Encode = Encoded;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for AnyMessage {
    type Item = Encoded;
    type Error = Status;

    fn encode(&mut self, item: Encoded, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode_to(buffer)
    }
}

impl Decoder for AnyMessage {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let size = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(size)))
    }
}
