//! `[[reconcile]]`.

use super::super::binding::{Form, field};
use super::super::formats::{BASE_URL, CREDENTIAL, PROVIDER};
use super::super::schema::{Kind, Section, required_setting, setting, setting_or};
use super::super::settings::ReconcileSettings;

pub(super) static RECONCILE: Section = Section {
    doc: "The access of `model-gateway reconcile` and of the nightly comparison to a provider's reports of usage and costs. `docs/reconcile.md` describes the \
          comparison.",
    keys: &[
        required_setting(
            "provider",
            Kind::Text(&PROVIDER),
            field!(ReconcileSettings, provider, Form::TEXT),
            "The provider of the reports: OpenAI, Anthropic or OpenRouter. No two entries share one.",
        ),
        required_setting(
            "admin_key",
            Kind::Secret(&CREDENTIAL),
            field!(ReconcileSettings, admin_key, Form::SECRET),
            "The key that may read the reports: OpenAI's and Anthropic's admin keys, OpenRouter's provisioning key. No model call \
             uses it.",
        ),
        setting_or(
            "base_url",
            Kind::Text(&BASE_URL),
            field!(ReconcileSettings, base_url, Form::OPTIONAL_TEXT),
            "the provider's own",
            "The address of the reports.",
        ),
        setting(
            "nightly",
            Kind::Bool,
            field!(ReconcileSettings, nightly, Form::BOOL),
            "Whether the gateway itself compares the day before yesterday (UTC), once a day over all replicas. The result is the metric \
             `gateway_reconcile_difference_usd`, and a difference above the threshold the alert `reconcile`.",
        ),
        setting(
            "threshold_percent",
            Kind::Price,
            field!(ReconcileSettings, threshold_percent, Form::PRICE),
            "The part of the provider's total, in per cent, above which a nightly difference is told.",
        ),
    ],
};
