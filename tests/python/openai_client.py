"""The official openai SDK as a box runs it, with the stand-in as its key."""

import json
import os

import openai

client = openai.OpenAI(
    api_key=os.environ["OPENAI_KEY"],
    base_url=os.environ["OPENAI_BASE_URL"] + "/v1",
    max_retries=0,
)

completion = client.chat.completions.create(
    model=os.environ["MODEL"], messages=[{"role": "user", "content": "Hello"}]
)

print(json.dumps({"text": completion.choices[0].message.content}))
