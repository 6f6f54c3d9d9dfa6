//! The images of an Azure resource.

use super::addresses::Addresses;
use crate::adapter::Target;
use crate::adapters::openai::images::ImageUrls;

/// The images of a resource (learn.microsoft.com, "Azure OpenAI image generation models", November 2026).
#[derive(Debug)]
pub(super) struct AzureImages(pub(super) Addresses);

impl ImageUrls for AzureImages {
    fn call<'t>(&'t self, path: &str, target: &'t Target<'_>) -> (String, Option<&'t str>) {
        let deployment = self.0.deployment(target);
        (self.0.path(deployment, path), (!self.0.is_classic).then_some(deployment))
    }
}
