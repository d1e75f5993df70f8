package dev.octet.trainer.program;

import dev.octet.formats.tensor.Tensor;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Deterministic text of a program: values with their roles, then steps by phase. Constants are represented by digests of their elements.
 */
final class ProgramText {
    private final StringBuilder text = new StringBuilder();

    ProgramText(Program program) {
        for (Value v : program.values()) {
            if (v.role() != ValueRole.TEMPORARY) {
                value(program, v);
            }
        }
        named("inputs", program.inputs());
        named("outputs", program.outputs());
        named("gradients", program.gradients());
        for (Phase phase : Phase.values()) {
            List<Step> steps = program.steps(phase);
            if (!steps.isEmpty()) {
                text.append(phase).append('\n');
                steps.forEach(this::step);
            }
        }
    }

    private void value(Program program, Value v) {
        text.append(v).append(' ').append(v.role());
        Tensor constant = program.constants().get(v);
        if (constant != null) {
            var digest = Program.sha256();
            digest.update(constant.bytes().asByteBuffer());
            text.append(" sha256:").append(HexFormat.of().formatHex(digest.digest()));
        }
        List<Float> initial = program.initialStates().get(v);
        if (initial != null) {
            text.append(" = ").append(initial);
        }
        text.append('\n');
    }

    private void named(String what, Map<String, Value> values) {
        if (!values.isEmpty()) {
            text.append(what).append('\n');
            values.forEach((name, v) ->
                    text.append("  ").append(name).append(" = %").append(v.id()).append('\n'));
        }
    }

    private void step(Step s) {
        text.append("  ")
                .append(s.backward() ? "backward " : s.repeats() ? "again " : "")
                .append(s.op());
        ids(" (", s.inputs(), ")");
        ids(s.backward() ? " of (" : " -> (", s.outputs(), ")");
        if (s.backward()) {
            ids(" upstream (", s.upstream(), ")");
            ids(" -> (", s.gradients(), ")");
        }
        if (!s.accumulated().isEmpty()) {
            text.append(" added ").append(s.accumulated().stream().sorted().toList());
        }
        text.append("  # ").append(s.node()).append('\n');
    }

    private void ids(String open, List<@Nullable Value> values, String close) {
        text.append(open);
        for (int i = 0; i < values.size(); i++) {
            Value v = values.get(i);
            text.append(i == 0 ? "" : ", ").append(v == null ? "-" : "%" + v.id());
            if (v != null && v.role() == ValueRole.TEMPORARY) {
                text.append(' ').append(v.type());
            }
        }
        text.append(close);
    }

    @Override
    public String toString() {
        return text.toString();
    }
}
