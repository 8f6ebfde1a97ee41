"""The official anthropic SDK as a box runs it: everything comes from the environment."""

import json
import os

import anthropic

MODEL = os.environ["MODEL"]
MESSAGES = [{"role": "user", "content": "Hello"}]

# ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY, as `box env` prints them.
client = anthropic.Anthropic(max_retries=0)

message = client.messages.create(model=MODEL, max_tokens=16, messages=MESSAGES)

pieces = []
with client.messages.stream(model=MODEL, max_tokens=16, messages=MESSAGES) as stream:
    for text in stream.text_stream:
        pieces.append(text)
    final = stream.get_final_message()

counted = client.messages.count_tokens(model=MODEL, messages=MESSAGES)
models = [model.id for model in client.models.list(limit=5)]
model = client.models.retrieve(MODEL)

try:
    anthropic.Anthropic(api_key="nobody", max_retries=0).messages.create(
        model=MODEL, max_tokens=16, messages=MESSAGES
    )
    refused = None
except anthropic.PermissionDeniedError as error:
    refused = error.status_code

print(
    json.dumps(
        {
            "message": message.content[0].text,
            "pieces": pieces,
            "streamed": final.content[0].text,
            "stop_reason": final.stop_reason,
            "input_tokens": counted.input_tokens,
            "models": models,
            "model": model.id,
            "refused": refused,
        }
    )
)
