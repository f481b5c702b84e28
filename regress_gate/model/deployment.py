"""The deployment that known issues are matched against: what the user runs, as far as they have said it."""

import re
from math import isfinite
from typing import Self

from pydantic import Field

from regress_gate.errors import InputError
from regress_gate.model.documents import StrictModel

ArgValue = str | int | float | bool
"""An engine argument's value as vLLM's command line takes it; a bare flag is true."""


class Deployment(StrictModel):
    """What is not given is unknown, never assumed to be the default."""

    accelerator: str | None = None
    """`H200`, `MI300X`, `RTX PRO 6000`, `cpu`…"""
    model: str | None = None
    quantization: str | None = None
    engine_args: dict[str, ArgValue] = Field(default_factory=dict)
    """Keys with underscores and no leading dashes: `enable_expert_parallel`."""
    env: dict[str, str] = Field(default_factory=dict)

    def over(self, other: "Deployment") -> "Deployment":
        """This deployment, filled in from `other` where this one is silent."""
        return Deployment(
            accelerator=self.accelerator or other.accelerator,
            model=self.model or other.model,
            quantization=self.quantization or other.quantization,
            engine_args={**other.engine_args, **self.engine_args},
            env={**other.env, **self.env},
        )

    @classmethod
    def from_flags(
        cls,
        *,
        accelerator: str | None = None,
        model: str | None = None,
        quantization: str | None = None,
        engine_args: tuple[str, ...] = (),
        env: tuple[str, ...] = (),
    ) -> Self:
        """Read `KEY=VALUE` pairs; `KEY` alone is a bare flag.

        Raises InputError for a pair without a key, and for bytes that are no text.
        """
        for text in (accelerator, model, quantization, *engine_args, *env):
            if text is not None and any("\ud800" <= sign <= "\udfff" for sign in text):
                raise InputError(f"{text!r} is not UTF-8 text", where="the deployment's flags")
        return cls(
            accelerator=accelerator,
            model=model,
            quantization=quantization,
            engine_args={
                engine_arg_key(key): True if value is None else _arg_value(value)
                for key, value in (_pair(pair, "--engine-arg") for pair in engine_args)
            },
            env={key: value or "" for key, value in (_pair(pair, "--env") for pair in env)},
        )


def engine_arg_key(key: str) -> str:
    """`--enable-expert-parallel` and `enable_expert_parallel` are the same argument."""
    return key.lstrip("-").replace("-", "_")


def _pair(text: str, flag: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    if not key.strip():
        raise InputError(f"{text!r} has no key", where=flag, todo="write KEY=VALUE")
    return key.strip(), value if equals else None


def _arg_value(text: str) -> ArgValue:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"[-+]?[0-9]{1,300}", text):
        return int(text)
    if re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", text) and isfinite(number := float(text)):
        return number
    return text
