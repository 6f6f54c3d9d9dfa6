//! Tools that a provider runs itself and charges by the call, beside the tokens.

/// A hosted tool whose calls have a price.
///
/// Providers bill the web searches of an answer differently, so several members count them: each query (OpenAI,
/// Anthropic, Gemini 3, xAI), each answer with a search (Gemini 2.5) or each request by the size of its search context
/// (Perplexity). An adapter counts all calls that its upstream reports, and the model's prices decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostedTool {
    /// A search of the web, by the query or the call, as the provider counts.
    WebSearch,
    /// The reading of a web page.
    WebFetch,
    /// A search in stored files.
    FileSearch,
    /// A container in which the model runs code.
    CodeInterpreter,
    /// A run of code, for providers that do not bill by the container.
    CodeRun,
    /// An answer for which the model searched the web, however often.
    SearchAnswer,
    /// A request to a model that always searches the web, with a small search context.
    SearchLow,
    /// A request to a model that always searches the web, with a medium search context.
    SearchMedium,
    /// A request to a model that always searches the web, with a large search context.
    SearchHigh,
}

/// Ways to bill web searches.
const SEARCHES: [HostedTool; 5] = [
    HostedTool::WebSearch,
    HostedTool::SearchAnswer,
    HostedTool::SearchLow,
    HostedTool::SearchMedium,
    HostedTool::SearchHigh,
];

/// Ways to bill code that the model runs.
const CODE: [HostedTool; 2] = [HostedTool::CodeInterpreter, HostedTool::CodeRun];

impl HostedTool {
    /// All hosted tools, in the order of their prices.
    pub const ALL: [Self; 9] = [
        Self::WebSearch,
        Self::WebFetch,
        Self::FileSearch,
        Self::CodeInterpreter,
        Self::CodeRun,
        Self::SearchAnswer,
        Self::SearchLow,
        Self::SearchMedium,
        Self::SearchHigh,
    ];

    /// The requests to a model that always searches the web, by the size of the search context.
    pub const SEARCH_REQUESTS: [Self; 3] = [Self::SearchLow, Self::SearchMedium, Self::SearchHigh];

    /// The name of the tool's price in `pricing.tools`.
    #[must_use]
    pub const fn price_name(self) -> &'static str {
        match self {
            Self::WebSearch => "web_search_per_call",
            Self::WebFetch => "web_fetch_per_call",
            Self::FileSearch => "file_search_per_call",
            Self::CodeInterpreter => "code_interpreter_per_container",
            Self::CodeRun => "code_interpreter_per_call",
            Self::SearchAnswer => "web_search_per_answer",
            Self::SearchLow => "search_request_low",
            Self::SearchMedium => "search_request_medium",
            Self::SearchHigh => "search_request_high",
        }
    }

    /// The request of a model that always searches the web, by its `search_context_size`. Without a known size the
    /// smallest is the default.
    #[must_use]
    pub fn search_request(size: &str) -> Self {
        match size {
            "medium" => Self::SearchMedium,
            "high" => Self::SearchHigh,
            _ => Self::SearchLow,
        }
    }

    /// All ways to bill the work of this tool, including the tool itself.
    #[must_use]
    pub fn billed_as(self) -> &'static [Self] {
        match self {
            Self::WebSearch
            | Self::SearchAnswer
            | Self::SearchLow
            | Self::SearchMedium
            | Self::SearchHigh => &SEARCHES,
            Self::CodeInterpreter | Self::CodeRun => &CODE,
            Self::WebFetch => &[Self::WebFetch],
            Self::FileSearch => &[Self::FileSearch],
        }
    }
}

/// Calls of hosted tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostedCalls {
    /// Searches of the web.
    pub web_search: u32,
    /// Web pages that were read.
    pub web_fetch: u32,
    /// Searches in stored files.
    pub file_search: u32,
    /// Containers in which code ran.
    pub code_interpreter: u32,
    /// Runs of code.
    pub code_runs: u32,
    /// Answers for which the web was searched.
    pub search_answers: u32,
    /// Requests to a model that always searches, with a small search context.
    pub search_low: u32,
    /// Requests to a model that always searches, with a medium search context.
    pub search_medium: u32,
    /// Requests to a model that always searches, with a large search context.
    pub search_high: u32,
}

impl HostedCalls {
    /// Whether no hosted tool was called.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The calls of all tools.
    #[must_use]
    pub fn count(&self) -> u32 {
        HostedTool::ALL.into_iter().fold(0, |sum, tool| sum.saturating_add(self.of(tool)))
    }

    /// The calls of one tool.
    #[must_use]
    pub fn of(&self, tool: HostedTool) -> u32 {
        match tool {
            HostedTool::WebSearch => self.web_search,
            HostedTool::WebFetch => self.web_fetch,
            HostedTool::FileSearch => self.file_search,
            HostedTool::CodeInterpreter => self.code_interpreter,
            HostedTool::CodeRun => self.code_runs,
            HostedTool::SearchAnswer => self.search_answers,
            HostedTool::SearchLow => self.search_low,
            HostedTool::SearchMedium => self.search_medium,
            HostedTool::SearchHigh => self.search_high,
        }
    }

    /// Adds calls of one tool.
    pub fn add(&mut self, tool: HostedTool, calls: u32) {
        let place = match tool {
            HostedTool::WebSearch => &mut self.web_search,
            HostedTool::WebFetch => &mut self.web_fetch,
            HostedTool::FileSearch => &mut self.file_search,
            HostedTool::CodeInterpreter => &mut self.code_interpreter,
            HostedTool::CodeRun => &mut self.code_runs,
            HostedTool::SearchAnswer => &mut self.search_answers,
            HostedTool::SearchLow => &mut self.search_low,
            HostedTool::SearchMedium => &mut self.search_medium,
            HostedTool::SearchHigh => &mut self.search_high,
        };
        *place = place.saturating_add(calls);
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        HostedTool::ALL.into_iter().for_each(|tool| self.add(tool, other.of(tool)));
        self
    }

    /// At most so many calls of each tool.
    #[must_use]
    pub fn capped(&self, most: u64) -> Self {
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let mut capped = Self::default();
        HostedTool::ALL.into_iter().for_each(|tool| capped.add(tool, self.of(tool).min(most)));
        capped
    }

    /// So many times these calls.
    #[must_use]
    pub fn times(&self, factor: u64) -> Self {
        let factor = u32::try_from(factor).unwrap_or(u32::MAX);
        let mut product = Self::default();
        HostedTool::ALL.into_iter().for_each(|tool| product.add(tool, self.of(tool).saturating_mul(factor)));
        product
    }
}
