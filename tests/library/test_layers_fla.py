"""The states against the reference functions of flash-linear-attention, where it is installed beside."""

import numpy as np
import pytest

from lsalib import layers

torch = pytest.importorskip("torch", reason="compares with flash-linear-attention, which needs PyTorch")
pytest.importorskip("fla", reason="compares with flash-linear-attention (fla-core), which is not installed")

B, T, H, K, V = 2, 9, 3, 5, 4


def of_fla(rule, q, k, v, beta, log_gate, state):
    """Outputs (B, T, H, V) and the last state (B, H, K, V) of its naive functions, whose queries it scales."""
    from fla.ops.delta_rule.naive import delta_rule_recurrence
    from fla.ops.gated_delta_rule.naive import naive_recurrent_gated_delta_rule
    from fla.ops.linear_attn.naive import naive_recurrent_linear_attn
    from fla.ops.simple_gla.naive import naive_recurrent_simple_gla

    options = {"initial_state": state, "output_final_state": True}
    if rule == "delta":
        heads_first = (x.transpose(1, 2) for x in (q, k, v, beta))
        outputs, last = delta_rule_recurrence(*heads_first, **options)
        return outputs.transpose(1, 2), last
    if rule == "gated_delta":
        return naive_recurrent_gated_delta_rule(q, k, v, beta, log_gate, **options)
    if rule == "gated":
        return naive_recurrent_simple_gla(q, k, v, log_gate, **options)
    return naive_recurrent_linear_attn(q, k, v, **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_states_are_those_of_flash_linear_attention(rule):
    """Outputs and last states, with a step and a gate for each token and an initial state. Control: another start."""
    rng = np.random.default_rng(0)
    q, k = (0.5 * rng.normal(size=(B, T, H, K)).astype(np.float32) for _ in range(2))
    v, state = rng.normal(size=(B, T, H, V)).astype(np.float32), rng.normal(size=(B, H, K, V)).astype(np.float32)
    beta, gate = (rng.uniform(0.2, 0.9, (B, T, H)).astype(np.float32) for _ in range(2))
    outputs, last = of_fla(rule, *map(torch.tensor, (q, k, v, beta, np.log(gate), state)))
    for b, h in np.ndindex(B, H):
        given = state[b, h].T, k[b, :, h], v[b, :, h], q[b, :, h] * np.float32(K**-0.5)
        rates = {"step": beta[b, :, h]} if "delta" in rule else {}
        rates |= {"gate": gate[b, :, h]} if "gated" in rule else {}
        for way in (layers.recurrence, layers.chunked):
            S, read = way(*given, **rates, delta="delta" in rule)
            np.testing.assert_allclose(S, last[b, h].numpy().T, rtol=2e-5, atol=2e-6)
            np.testing.assert_allclose(read, outputs[b, :, h].numpy(), rtol=2e-5, atol=2e-6)
            _, elsewhere = way(0 * given[0], *given[1:], **rates, delta="delta" in rule)
            assert np.abs(elsewhere - outputs[b, :, h].numpy()).max() > 1e-3
