//! The images of a chat that stand at http(s) addresses, and their bytes, for providers that take only bytes.

use std::borrow::Cow;

use super::message::{Content, Source};
use super::{Conversation, read};
use crate::fetched_images::{FetchedImage, FetchedImages};
use crate::request::ChatRequest;

/// An image at an http(s) address. Several parts may have the same address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageAddress {
    /// The address as the client wrote it.
    pub url: String,
    /// The first member of the chat with this address, such as `messages[0].content[1].image_url.url`.
    pub member: String,
    /// The parts that have this address. Each of them gets the bytes.
    pub uses: usize,
}

/// The addresses of the images in the parts of a chat, each once, in the order of the messages. The search ends behind `most` addresses.
#[must_use]
pub fn image_addresses(request: &ChatRequest, most: usize) -> Vec<ImageAddress> {
    let mut found: Vec<ImageAddress> = Vec::new();
    for (at, message) in read::messages(&request.body).iter().enumerate() {
        for (place, part) in message.parts.iter().enumerate() {
            let Content::Image(Source::Url(url)) = &part.content else { continue };
            if let Some(known) = found.iter_mut().find(|known| known.url == **url) {
                known.uses += 1;
                continue;
            }
            if found.len() == most {
                return found;
            }
            let member = format!("messages[{at}].content[{place}].image_url.url");
            found.push(ImageAddress { url: url.clone().into_owned(), member, uses: 1 });
        }
    }
    found
}

impl<'a> Conversation<'a> {
    /// Puts the bytes of images into the parts with their addresses.
    pub fn put_images(&mut self, images: &'a FetchedImages) {
        for part in self.messages.iter_mut().flat_map(|message| &mut message.parts) {
            let Content::Image(source) = &mut part.content else { continue };
            let Source::Url(url) = source else { continue };
            if let Some(FetchedImage { media_type, base64 }) = images.get(url) {
                *source =
                    Source::Data { media_type: (*media_type).to_owned(), base64: Cow::Borrowed(base64) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{RequestLimits, parse_chat};

    #[test]
    fn each_address_is_found_once_and_its_bytes_stand_in_every_part() {
        let body = r#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[
            {"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"https://a.example/1"}},
            {"type":"image_url","image_url":{"url":"https://a.example/2"}},
            {"type":"image_url","image_url":{"url":"https://a.example/1"}}]}]}"#;
        let request = parse_chat(body.into(), &RequestLimits::default()).unwrap();
        let addresses = image_addresses(&request, 2);
        let found: Vec<_> = addresses.iter().map(|found| (&*found.url, &*found.member, found.uses)).collect();
        assert_eq!(
            found,
            [
                ("https://a.example/1", "messages[1].content[1].image_url.url", 2),
                ("https://a.example/2", "messages[1].content[2].image_url.url", 1),
            ]
        );
        assert_eq!(image_addresses(&request, 1).len(), 1);
        let image = FetchedImage { media_type: "image/gif", base64: "R0lGOD".to_owned() };
        let images = FetchedImages::new([("https://a.example/1".to_owned(), image)]);
        let mut conversation = Conversation::of_chat(&request, 1);
        conversation.put_images(&images);
        let sources = conversation.messages.iter().flat_map(|message| &message.parts).filter_map(|part| {
            match &part.content {
                Content::Image(Source::Data { base64, .. }) => Some(&**base64),
                Content::Image(Source::Url(url)) => Some(&**url),
                _ => None,
            }
        });
        assert_eq!(sources.collect::<Vec<_>>(), ["R0lGOD", "https://a.example/2", "R0lGOD"]);
    }
}
