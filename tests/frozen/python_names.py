#!/usr/bin/env python3
"""What the package `croupier` shows to Python: printed as JSON by a Python in which it is installed."""

import ast
import dataclasses
import inspect
import json
import re

RULE = (
    "A program that ran with 1.0's package uses it so: names stay, arguments stay where they are, and new "
    "ones have defaults."
)


def parameters_of(member):
    """Those by place with their place, those by name with their default."""
    if signatures := getattr(member, "__nb_signature__", None):
        # `...` and `\\0` stand where nanobind prints no default.
        text = re.sub(r"\\\d+", "...", signatures[0][0])
        arguments = ast.parse(f"{text}: ...").body[0].args
        places = [each.arg for each in arguments.posonlyargs + arguments.args]
        names = [
            (each.arg, _text(default))
            for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        ]
        defaults = [None] * (len(places) - len(arguments.defaults)) + [
            _text(default) for default in arguments.defaults
        ]
        return [_placed(i, name, defaults[i]) for i, name in enumerate(places) if name != "self"] + [
            _named(*each) for each in names
        ]
    found = []
    for i, each in enumerate(inspect.signature(member).parameters.values()):
        default = None if each.default is each.empty else repr(each.default)
        if each.name != "self":
            found.append(
                _named(each.name, default)
                if each.kind is each.KEYWORD_ONLY
                else _placed(i, each.name, default)
            )
    return found


def _text(node):
    return None if node is None else ast.unparse(node)


def _placed(place, name, default):
    return f"{place}. {name}" + ("" if default is None else f" = {default}")


def _named(name, default):
    return f"{name} by name" + ("" if default is None else f" = {default}")


def of_call(name, member):
    arguments = parameters_of(member)
    needed = ", ".join(each for each in arguments if " = " not in each) or "nothing"
    return {f"{name}(): arguments": arguments, f"{name}(): needs": needed}


def of_class(name, kind):
    found = {}
    if hasattr(kind.__init__, "__nb_signature__"):
        found |= of_call(name, kind.__init__)
    special = ("__enter__", "__exit__", "__aiter__", "__anext__", "__len__", "__iter__", "__getitem__")
    for attribute in dir(kind):
        if attribute.startswith("_") and (attribute not in special or not _own(kind, attribute)):
            continue
        member = inspect.getattr_static(kind, attribute)
        if not _own(kind, attribute):
            continue
        if isinstance(member, property):
            found[f"{name}.{attribute}"] = "may be set" if member.fset else "may be read"
        elif callable(member):
            found[f"{name}.{attribute}"] = "a method"
            found |= of_call(f"{name}.{attribute}", member)
        else:
            found[f"{name}.{attribute}"] = "there"
    return found


def _own(kind, attribute):
    """Of Croupier's, not of what its class is made of."""
    return any(attribute in vars(base) for base in kind.__mro__ if base.__module__.startswith("croupier"))


def facts():
    import croupier
    from croupier.vllm.options import Options

    found = {
        "croupier: names": sorted(croupier.__all__),
        "croupier.PARAMETER_NAMES": list(croupier.PARAMETER_NAMES),
    }
    for name in croupier.__all__:
        member = getattr(croupier, name)
        if isinstance(member, type):
            found |= of_class(f"croupier.{name}", member)
            if issubclass(member, Exception):
                found[f"croupier.{name}: bases"] = [base.__name__ for base in member.__mro__[1:-1]]
                found[f"croupier.{name}: what it carries"] = sorted(vars(member(0, "name", "text")))
        elif callable(member):
            found |= of_call(f"croupier.{name}", member)
    found['vLLM: keys of additional_config["croupier"]'] = sorted(
        each.name for each in dataclasses.fields(Options)
    )
    return found


if __name__ == "__main__":
    print(json.dumps(facts()))
