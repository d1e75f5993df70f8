package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.hf.DecoderArchitecture.AttentionBias;
import dev.octet.converter.hf.DecoderArchitecture.Feature;
import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;

/**
 * Configurations of a family with experts, as the names and shapes of a graph's parameters tell them. Choices that these leave open are candidates each; running them
 * decides.
 */
final class MixtureCandidates {
    private static final Pattern LAYER = Pattern.compile("model\\.layers\\.(\\d{1,4})\\.(.+)");
    private static final Pattern EXPERT = Pattern.compile("(.*\\.?)experts\\.(\\d{1,5})\\.(.+)");

    private final DecoderArchitecture family;
    private final Mixture mixture;
    private final GraphTraits traits;

    /** Parameters of each layer, by their names in it. */
    private final List<Map<String, Shape>> layers = new ArrayList<>();

    /** Layers that have experts. */
    private final List<Integer> mixed = new ArrayList<>();

    private MixtureCandidates(DecoderArchitecture family, Mixture mixture, GraphTraits traits) {
        this.family = family;
        this.mixture = mixture;
        this.traits = traits;
    }

    /** The candidates; none where the graph is of another family, or of one whose numbers do not show. */
    static List<ObjectNode> of(DecoderArchitecture family, Mixture mixture, GraphTraits traits) {
        MixtureCandidates c = new MixtureCandidates(family, mixture, traits);
        c.readLayers();
        return c.fits() ? c.candidates() : List.of();
    }

    private void readLayers() {
        Map<Integer, Map<String, Shape>> byNumber = new TreeMap<>();
        traits.parameters().forEach((name, shape) -> {
            Matcher m = LAYER.matcher(name);
            if (m.matches()) {
                byNumber.computeIfAbsent(Integer.valueOf(m.group(1)), _ -> new TreeMap<>())
                        .put(m.group(2), shape);
            }
        });
        layers.addAll(byNumber.values());
        for (int i = 0; i < layers.size(); i++) {
            if (layers.get(i).keySet().stream().anyMatch(n -> n.contains("experts."))) {
                mixed.add(i);
            }
        }
    }

    private boolean has(String parameter) {
        return !mixed.isEmpty() && layers.get(mixed.getFirst()).containsKey(parameter);
    }

    /** Whether what only some families have is there or not, as this one has it. */
    private boolean fits() {
        boolean latent = has("self_attn.kv_a_proj_with_mqa.weight");
        return !mixed.isEmpty()
                && traits.ofTokens()
                && traits.rmsNorm()
                && mixture.router() != Mixture.Router.BEFORE
                && latent == family.has(Feature.LATENT_ATTENTION)
                && has("self_attn.sinks") == family.has(Feature.SINKS)
                && has("self_attn.q_norm.weight") == family.has(Feature.HEAD_NORMS)
                && has("mlp.shared_expert_gate.weight") == (mixture.shared() == Mixture.Shared.GATED)
                && (mixture.shared() == Mixture.Shared.PLAIN || !has("mlp.shared_experts.gate_proj.weight"))
                && has("mlp.gate.e_score_correction_bias") == (mixture.router() == Mixture.Router.BIASED_GROUPS)
                && has("mlp." + mixture.router().module() + ".weight")
                && (mixture.layers() != Mixture.Layers.ALL || mixed.size() == layers.size())
                && (family.attentionBias() != AttentionBias.NONE || !has("self_attn.q_proj.bias"))
                && (traits.window().isEmpty() || family.window() == SlidingWindow.ALL_LAYERS);
    }

    private Shape shape(int layer, String parameter) {
        return layers.get(layer).getOrDefault(parameter, Shape.of(0, 0));
    }

    /** How many experts there are, and the elements of a token within one; empty where names do not tell. */
    private Optional<int[]> experts() {
        Map<String, Shape> layer = layers.get(mixed.getFirst());
        Shape fused = layer.get("mlp.experts.down_proj");
        int inner = 0;
        if (fused != null && fused.rank() == 3) {
            // [experts, hidden, inner], or [experts, inner, hidden] where files have it so
            inner = (int) (mixture.expert().isFused() ? fused.dim(1) : fused.dim(2));
            return Optional.of(new int[] {(int) fused.dim(0), inner});
        }
        int experts = 0;
        for (Map.Entry<String, Shape> e : layer.entrySet()) {
            Matcher m = EXPERT.matcher(e.getKey());
            if (m.matches()) {
                experts = Math.max(experts, Integer.parseInt(m.group(2)) + 1);
                boolean down = m.group(3).startsWith("down_proj");
                if (down && e.getValue().rank() == 2) {
                    inner = (int) e.getValue().dim(mixture.expert().isFused() ? 0 : 1);
                }
            }
        }
        return experts == 0 || inner == 0 ? Optional.empty() : Optional.of(new int[] {experts, inner});
    }

    private List<ObjectNode> candidates() {
        Optional<int[]> experts = experts();
        List<Integer> choices = traits.best().stream().distinct().toList();
        boolean grouped = mixture.router() == Mixture.Router.GROUPS || mixture.router() == Mixture.Router.BIASED_GROUPS;
        Optional<ObjectNode> rope = rope();
        if (experts.isEmpty() || choices.size() != 1 || grouped || rope.isEmpty()) {
            return List.of();
        }
        int hidden = traits.hidden();
        int q = (int) shape(0, "self_attn.q_proj.weight").dim(0);
        int k = (int) shape(0, "self_attn.k_proj.weight").dim(0);
        int size = traits.heads() == 0 ? 0 : q / traits.heads();
        if (size == 0 || q % traits.heads() != 0 || k % size != 0) {
            return List.of();
        }
        ObjectNode config = Candidate.of(family, family.classes().get(traits.predictsTokens() ? 0 : 1))
                .put("vocab_size", traits.vocabulary())
                .put("hidden_size", hidden)
                .put("num_hidden_layers", layers.size())
                .put("num_attention_heads", traits.heads())
                .put("num_key_value_heads", k / size);
        if (size * traits.heads() != hidden || family.has(Feature.HEAD_NORMS)) {
            config.put("head_dim", size);
        }
        config.put(mixture.counts().getFirst(), experts.get()[0])
                .put("num_experts_per_tok", choices.getFirst())
                .put(mixture.inner(), experts.get()[1])
                .put(family.activation().key(), family.activation().name(traits.activation()))
                .put("rms_norm_eps", traits.epsilon());
        config.set("rope_parameters", rope.get());
        if (family.window() == SlidingWindow.ALL_LAYERS) {
            traits.window()
                    .ifPresentOrElse(w -> config.put("sliding_window", w), () -> config.putNull("sliding_window"));
        }
        biases(config);
        layers(config);
        if (mixture.shared() == Mixture.Shared.GATED) {
            config.put("shared_expert_intermediate_size", (int)
                    shape(mixed.getFirst(), "mlp.shared_expert.gate_proj.weight")
                            .dim(0));
        }
        return open(config);
    }

    private Optional<ObjectNode> rope() {
        OptionalInt size = traits.heads() == 0
                ? OptionalInt.empty()
                : OptionalInt.of((int) shape(0, "self_attn.q_proj.weight").dim(0) / traits.heads());
        return size.isEmpty() ? Optional.empty() : RotaryAngles.parameters(traits.frequencies(), size.getAsInt());
    }

    private void biases(ObjectNode config) {
        boolean biased = layers.getFirst().containsKey("self_attn.q_proj.bias");
        switch (family.attentionBias()) {
            case QKV_CONFIGURED -> config.put("qkv_bias", biased);
            case CONFIGURED -> config.put("attention_bias", biased);
            case NONE, QKV -> {}
        }
    }

    /** Which layers have an MLP in place of experts, and how wide that is. */
    private void layers(ObjectNode config) {
        if (mixture.layers() == Mixture.Layers.STEPS) {
            ArrayNode plain = config.put("decoder_sparse_step", 1).putArray("mlp_only_layers");
            IntStream.range(0, layers.size()).filter(i -> !mixed.contains(i)).forEach(plain::add);
        }
        IntStream.range(0, layers.size())
                .filter(i -> !mixed.contains(i))
                .findFirst()
                .ifPresent(i -> config.put(mixture.denseInner(), (int)
                        shape(i, "mlp.gate_proj.weight").dim(0)));
    }

    /** What neither names nor shapes show: ties, and whether weights of the chosen add up to one. */
    private List<ObjectNode> open(ObjectNode config) {
        List<ObjectNode> all = new ArrayList<>();
        for (boolean tied : traits.predictsTokens() ? new boolean[] {true, false} : new boolean[] {false}) {
            for (boolean sums : mixture.router() == Mixture.Router.CONFIGURED
                    ? new boolean[] {true, false}
                    : new boolean[] {true}) {
                ObjectNode one = config.deepCopy().put("tie_word_embeddings", tied);
                all.add(mixture.router() == Mixture.Router.CONFIGURED ? one.put("norm_topk_prob", sums) : one);
            }
        }
        return all;
    }
}
