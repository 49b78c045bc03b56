"""How large an image may be: its own limit, which no layer can widen, and a write limit set on purpose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.config.modes import ToolMode
from interlock.policy.authority import compile_authority
from interlock.policy.authority_inputs import AuthorityInputs
from interlock.policy.policy_fields import (
    DEFAULT_MAX_IMAGE_BYTES,
    DEFAULT_MAX_WRITE_BYTES,
    NO_RESTRICTION,
    FsPolicy,
    ImagePolicy,
    ToolPolicy,
)
from interlock.tools.registry import ToolRegistry

MIB = 1024 * 1024


def limit(system: ToolPolicy, agent: ToolPolicy = NO_RESTRICTION) -> int:
    authority_inputs = AuthorityInputs(mode=ToolMode.coding, environment=system, agent=agent)
    return compile_authority(ToolRegistry(), authority_inputs).limits.max_image_bytes


def policy(images: int | None = None, writes: int | None = None) -> ToolPolicy:
    return ToolPolicy(image=ImagePolicy(max_bytes=images), fs=FsPolicy(max_write_bytes=writes))


@pytest.mark.parametrize(
    ("images", "writes", "expected"),
    [
        (None, None, DEFAULT_MAX_IMAGE_BYTES),
        (None, DEFAULT_MAX_WRITE_BYTES, DEFAULT_MAX_IMAGE_BYTES),
        (None, 64 * MIB, DEFAULT_MAX_IMAGE_BYTES),
        (None, DEFAULT_MAX_WRITE_BYTES - 1, DEFAULT_MAX_WRITE_BYTES - 1),
        (None, 1000, 1000),
        (500, 1000, 500),
        (32 * MIB, None, 32 * MIB),
        (MIB, None, MIB),
    ],
)
def test_the_default_write_limit_is_for_text_and_a_lower_one_is_meant(images, writes, expected):
    assert limit(policy(images, writes)) == expected


def test_an_agent_cannot_raise_what_the_system_left_unset():
    assert limit(NO_RESTRICTION, policy(images=64 * MIB)) == DEFAULT_MAX_IMAGE_BYTES


sizes = st.none() | st.integers(1, 3) | st.integers(2 * MIB - 1, 2 * MIB + 1) | st.integers(MIB, 20 * MIB)
policies = st.builds(policy, sizes, sizes)


@given(policies, policies)
def test_no_layer_widens_it(system, agent):
    assert limit(system, agent) <= limit(system)
