package dev.octet.trainer.adapter;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.peft.PromptConfig;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.precision.LinearModule;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.LongStream;

/**
 * The networks that virtual tokens come out of: P-tuning's MLP or LSTM (Liu et al., arXiv:2103.10385) and the projection of prefix tuning (Li and Liang,
 * arXiv:2101.00190), layer by layer as PEFT's {@code PromptEncoder} and {@code PrefixEncoder} have them. Weights have torch's initial values.
 */
final class PromptEncoder {
    private static final String NAME = "prompt_encoder.";

    private final AdapterEdit adapter;
    private final VirtualTokens tokens;
    private final List<Node> nodes = new ArrayList<>();

    PromptEncoder(AdapterEdit adapter, VirtualTokens tokens) {
        this.adapter = adapter;
        this.tokens = tokens;
    }

    /** P-tuning: embeddings through an MLP of three layers, or an LSTM in both directions and an MLP of two. */
    String pTuning(PromptConfig config, long width, long hidden) {
        int count = config.virtualTokens();
        String rows = embedding(count, width);
        String result = config.encoderReparameterization().equals("LSTM")
                ? mlp(
                        "mlp_head",
                        lstm(rows, count, width, hidden, config.encoderLayers()),
                        "Relu",
                        2 * hidden,
                        2 * hidden,
                        width)
                : mlp("mlp_head", rows, "Relu", width, hidden, hidden, width);
        return finish(result);
    }

    /** The projection of prefix tuning: embeddings, a hidden layer with tanh, keys and values of all layers. */
    String prefix(int count, long width, long hidden, long columns, boolean zero) {
        String rows = embedding(count, width);
        String inner = op("Tanh", "tanh", linear("transform.0", rows, width, hidden, false));
        return finish(linear("transform.2", inner, hidden, columns, zero));
    }

    private String finish(String result) {
        adapter.graph().insertBefore(adapter.graph().nodes().getFirst(), nodes.toArray(Node[]::new));
        return result;
    }

    private String embedding(int count, long width) {
        String table =
                adapter.encoderParameter(NAME + "embedding.weight", Shape.of(count, width), InitialValues.normal(1));
        String all = tokens.longs(
                NAME + "all", Shape.of(count), LongStream.range(0, count).toArray());
        return op("Gather", "embedding", List.of(table, all), VirtualTokens.axis(0));
    }

    /** Linears with an activation between each two, named as in a torch Sequential. */
    private String mlp(String name, String x, String activation, long... widths) {
        String y = x;
        for (int i = 0; i + 1 < widths.length; i++) {
            if (i > 0) {
                y = op(activation, name + ".act", y);
            }
            y = linear(name + "." + 2 * i, y, widths[i], widths[i + 1], false);
        }
        return y;
    }

    private String linear(String name, String x, long in, long out, boolean zero) {
        String w = adapter.encoderParameter(
                NAME + name + ".weight",
                Shape.of(out, in),
                zero ? InitialValues.ZEROS : InitialValues.kaimingUniform());
        String b = adapter.encoderParameter(
                NAME + name + ".bias", Shape.of(out), zero ? InitialValues.ZEROS : InitialValues.fanIn(in));
        return product(name, x, w, b);
    }

    private String product(String name, String x, String w, String b) {
        String fresh = adapter.graph().freshName(NAME + name);
        nodes.add(Node.of(
                fresh,
                "Linear",
                Node.OCTET_DOMAIN,
                List.of(x, w, b),
                List.of(fresh),
                Attribute.of("transB", 1L),
                Attribute.of(LinearModule.ADAPTER, 1L)));
        return fresh;
    }

    private String op(String opType, String name, String x) {
        return op(opType, name, List.of(x));
    }

    private String op(String opType, String name, List<String> inputs, Attribute... attributes) {
        String fresh = adapter.graph().freshName(NAME + name);
        nodes.add(Node.of(fresh, opType, "", inputs, List.of(fresh), attributes));
        return fresh;
    }

    private List<String> split(String name, String x, long axis, int parts) {
        List<String> outputs = new ArrayList<>();
        for (int i = 0; i < parts; i++) {
            outputs.add(adapter.graph().freshName(NAME + name));
        }
        if (parts == 1) {
            return List.of(x);
        }
        nodes.add(Node.of(
                adapter.graph().freshName(NAME + name),
                "Split",
                "",
                List.of(x),
                outputs,
                VirtualTokens.axis(axis),
                Attribute.of("num_outputs", (long) parts)));
        return outputs;
    }

    /** An LSTM in both directions, [count, in] to [count, 2·hidden]; the steps are written out. */
    private String lstm(String x, int count, long in, long hidden, int layers) {
        String rows = x;
        for (int layer = 0; layer < layers; layer++) {
            long width = layer == 0 ? in : 2 * hidden;
            String forward = direction(rows, count, width, hidden, "_l" + layer, false);
            String backward = direction(rows, count, width, hidden, "_l" + layer + "_reverse", true);
            rows = op("Concat", "lstm", List.of(forward, backward), VirtualTokens.axis(1));
        }
        return rows;
    }

    /** One direction; gates in torch's order: input, forget, cell, output. */
    private String direction(String x, int count, long in, long hidden, String suffix, boolean reversed) {
        String name = "lstm_head.";
        InitialValues.Law law = InitialValues.fanIn(hidden);
        String wx = adapter.encoderParameter(NAME + name + "weight_ih" + suffix, Shape.of(4 * hidden, in), law);
        String wh = adapter.encoderParameter(NAME + name + "weight_hh" + suffix, Shape.of(4 * hidden, hidden), law);
        String bx = adapter.encoderParameter(NAME + name + "bias_ih" + suffix, Shape.of(4 * hidden), law);
        String bh = adapter.encoderParameter(NAME + name + "bias_hh" + suffix, Shape.of(4 * hidden), law);
        List<String> steps = new ArrayList<>(split("lstm.x", product(name + "x" + suffix, x, wx, bx), 0, count));
        if (reversed) {
            Collections.reverse(steps);
        }
        // the first step begins with h = 0, whose product is zero: it stays a product, so that all weights are used
        // with a single virtual token, too
        String h = zeros(hidden);
        String c = h;
        List<String> rows = new ArrayList<>();
        for (String step : steps) {
            String sum = op("Add", "lstm.gates", List.of(step, product("lstm.h", h, wh, bh)));
            List<String> gates = split("lstm.gate", sum, 1, 4);
            String input = op("Sigmoid", "lstm.input", gates.get(0));
            String forget = op("Sigmoid", "lstm.forget", gates.get(1));
            String cell = op("Tanh", "lstm.cell", gates.get(2));
            String output = op("Sigmoid", "lstm.output", gates.get(3));
            String kept = op("Mul", "lstm.kept", List.of(forget, c));
            String added = op("Mul", "lstm.added", List.of(input, cell));
            c = op("Add", "lstm.c", List.of(kept, added));
            h = op("Mul", "lstm.h", List.of(output, op("Tanh", "lstm.tanh", c)));
            rows.add(h);
        }
        if (reversed) {
            Collections.reverse(rows);
        }
        return rows.size() == 1 ? rows.getFirst() : op("Concat", "lstm.rows", rows, VirtualTokens.axis(0));
    }

    private String zeros(long hidden) {
        return tokens.floats(NAME + "lstm.zeros", Shape.of(1, hidden), new float[Math.toIntExact(hidden)]);
    }
}
