//! The bytes of images that a chat names by their http(s) addresses.

use std::collections::HashMap;

/// The bytes of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedImage {
    /// `image/png`, for example.
    pub media_type: &'static str,
    /// The bytes in base64.
    pub base64: String,
}

/// The images of one chat by their addresses.
#[derive(Clone, Debug, Default)]
pub struct FetchedImages(HashMap<String, FetchedImage>);

/// A PNG of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

impl FetchedImages {
    /// These images.
    #[must_use]
    pub fn new(images: impl IntoIterator<Item = (String, FetchedImage)>) -> Self {
        Self(images.into_iter().collect())
    }

    /// A pixel in the place of each image. A dialect that takes the request with them takes it with any image.
    #[must_use]
    pub fn placeholders<'u>(urls: impl IntoIterator<Item = &'u str>) -> Self {
        let pixel = || FetchedImage { media_type: "image/png", base64: PIXEL.to_owned() };
        Self::new(urls.into_iter().map(|url| (url.to_owned(), pixel())))
    }

    /// The image at an address.
    #[must_use]
    pub fn get(&self, url: &str) -> Option<&FetchedImage> {
        self.0.get(url)
    }
}
