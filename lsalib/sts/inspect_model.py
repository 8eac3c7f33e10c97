"""The small model as two providers of Inspect: ``lsalib/smollm2-135m-instruct`` answers conversations,
``lsalib-completions/smollm2-135m-instruct`` continues texts."""

from typing import Any

import anyio.to_thread
from inspect_ai.model import ChatMessage, GenerateConfig, ModelAPI, ModelOutput, modelapi
from inspect_ai.tool import ToolChoice, ToolInfo

from lsalib.sts.models import open_model
from lsalib.sts.models.smollm2 import Prompt


class Chat(ModelAPI):
    """Answers conversations, greedily."""

    def __init__(self, model_name: str, base_url: str | None = None, api_key: str | None = None, **settings: Any):
        super().__init__(model_name, base_url, api_key, [], settings.get("config", GenerateConfig()))
        self.model = open_model(model_name)

    def max_connections(self) -> int:
        return 1

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> ModelOutput:
        prompt, limit, stop = self._prompt(input), config.max_tokens or 150, config.stop_seqs or ()
        write = lambda: self.model.complete([prompt], max_new_tokens=limit, stop=stop)
        (answer,) = await anyio.to_thread.run_sync(write)
        return ModelOutput.from_content(self.model_name, answer)

    def _prompt(self, input: list[ChatMessage]) -> Prompt:
        return [{"role": message.role, "content": message.text} for message in input]


class Completions(Chat):
    """Continues the text of one message."""

    def _prompt(self, input: list[ChatMessage]) -> Prompt:
        (message,) = input
        return message.text


modelapi("lsalib")(lambda: Chat)
modelapi("lsalib-completions")(lambda: Completions)
