"""Faults of the gateway's requests that are known and not mended: what is wrong, and of which models in which conversations.

Each model of a pair fails in each conversation beside it. When one of these cases passes, the run fails, and it goes.
"""

FAULTS = {
    "a prefill goes out as it came: to models that refuse one, and to Mistral without `prefix`": [
        (
            "amazon/llama-3.3-70b-instruct amazon/llama-4-maverick",
            "effort and prefill, prefill",
        ),
        (
            "amazon/claude-haiku-4-5-20251001-v1:0 amazon/claude-opus-4-5-20251101-v1:0 anthropic/claude-haiku-4-5 "
            "anthropic/claude-opus-4-5",
            "effort and prefill",
        ),
        (
            "amazon/claude-haiku-5-5 amazon/claude-opus-4-6-v1 amazon/claude-opus-4-8 amazon/claude-opus-5 "
            "amazon/claude-opus-5-5 amazon/claude-sonnet-4-6 amazon/claude-sonnet-5 amazon/claude-sonnet-5-5 "
            "anthropic/claude-fable-5 anthropic/claude-fable-5-1 anthropic/claude-haiku-5-5 anthropic/claude-opus-4-6 "
            "anthropic/claude-opus-4-7 anthropic/claude-opus-4-8 anthropic/claude-opus-5 anthropic/claude-opus-5-5 "
            "anthropic/claude-sonnet-4-6 anthropic/claude-sonnet-5 anthropic/claude-sonnet-5-5 mistral/codestral-2508 "
            "mistral/ministral-8b-2512 mistral/mistral-large-2512 mistral/mistral-large-4 mistral/mistral-medium-3-5 "
            "mistral/mistral-small-2603",
            "effort and prefill, everything, prefill",
        ),
    ],
    "function tools go to /chat/completions beside reasoning, which OpenAI refuses from GPT-5.4 on": [
        (
            "azure/gpt-5.4 openai/gpt-5.4 openai/gpt-5.4-mini openai/gpt-5.4-nano openai/gpt-5.5",
            "echo, effort and forced tool, effort and tools, everything",
        ),
        (
            "openai/gpt-5.6-luna openai/gpt-5.6-sol openai/gpt-5.6-terra",
            "a tool required, allowed tools, echo, effort and forced tool, effort and tools, everything, forced tool, "
            "one call, results, results and more, results in another order, schema and results, schema and tools, "
            "tools, tools not called, untidy",
        ),
    ],
    "sampling parameters, logprobs and stop go to OpenAI models that reason": [
        (
            "azure/gpt-5-mini openai/gpt-5 openai/gpt-5-mini openai/gpt-5-nano",
            "effort and sampling, everything, hot, logprobs, sampling, temperature, top_p",
        ),
        (
            "azure/gpt-5.4 openai/gpt-5.4 openai/gpt-5.4-mini openai/gpt-5.4-nano openai/gpt-5.5 openai/gpt-5.6-luna "
            "openai/gpt-5.6-sol openai/gpt-5.6-terra",
            "effort and sampling",
        ),
        (
            "openai/gpt-5.1 openai/gpt-5.2 openai/gpt-6-astra openai/gpt-6-luna openai/gpt-6-sol openai/gpt-6.1-sol "
            "openai/gpt-6.1-terra",
            "effort and sampling, everything",
        ),
        (
            "azure/o3 openai/o3",
            "effort and sampling, everything, hot, logprobs, sampling, stop, temperature, top_p",
        ),
    ],
    "reasoning_effort goes to OpenAI models that do not reason, or not with that word": [
        (
            "azure/gpt-4o openai/gpt-4.1 openai/gpt-4.1-mini openai/gpt-4o openai/gpt-4o-mini",
            "echo, effort and forced tool, effort and prefill, effort and sampling, effort and tools, effort high, "
            "effort low, effort max, effort medium, effort minimal, effort none, effort xhigh, everything",
        ),
        (
            "azure/gpt-5-mini openai/gpt-5 openai/gpt-5-mini openai/gpt-5-nano",
            "effort max, effort none, effort xhigh",
        ),
        (
            "openai/gpt-5.1",
            "effort max, effort minimal, effort xhigh",
        ),
        (
            "openai/gpt-5.6-luna openai/gpt-5.6-sol openai/gpt-5.6-terra",
            "effort max, effort minimal",
        ),
        (
            "azure/o3 openai/o3",
            "effort max, effort minimal, effort none, effort xhigh",
        ),
    ],
    "reasoning is asked of models that do not reason": [
        (
            "cohere/command-a-03-2025 cohere/command-r7b-12-2024",
            "echo, effort and forced tool, effort and prefill, effort and sampling, effort and tools, effort high, "
            "effort low, effort max, effort medium, effort minimal, effort none, effort xhigh",
        ),
        (
            "cohere/command-r-08-2024",
            "echo, effort and prefill, effort and sampling, effort and tools, effort high, effort low, effort max, "
            "effort medium, effort minimal, effort none, effort xhigh",
        ),
        (
            "local/llama3.2:3b",
            "echo, effort and forced tool, effort and prefill, effort and sampling, effort and tools, effort high, "
            "effort low, effort max, effort medium, effort minimal, effort xhigh, everything",
        ),
        (
            "mistral/codestral-2508 mistral/ministral-8b-2512 mistral/mistral-large-2512",
            "echo, effort and forced tool, effort and sampling, effort and tools, effort high, effort low, effort "
            "max, effort medium, effort minimal, effort none, effort xhigh",
        ),
    ],
    "a tool is forced on models that take no choice": [
        (
            "amazon/claude-opus-5-5 amazon/claude-sonnet-5-5",
            "a tool required, effort and forced tool, forced tool, schema, schema and results, schema and tools",
        ),
        (
            "amazon/llama-3.3-70b-instruct amazon/llama-4-maverick",
            "a tool required, effort and forced tool, forced tool",
        ),
        (
            "cohere/command-r-08-2024",
            "a tool required, effort and forced tool, forced tool, tools not called",
        ),
    ],
    "thinkingLevel MINIMAL goes to models that do not have it": [
        (
            "google/gemini-3.7-flash google/gemini-3.8-flash vertex/gemini-3.8-flash",
            "effort minimal, effort none",
        ),
    ],
}
KNOWN = {
    (model, conversation): fault
    for fault, pairs in FAULTS.items()
    for models, conversations in pairs
    for model in models.split()
    for conversation in conversations.split(", ")
}
