package dev.octet.converter.hf;

import java.util.List;
import java.util.Optional;
import java.util.function.IntFunction;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;

/** Which layers of a decoder see only a window of positions, and which keys of the configuration say so. */
enum SlidingWindow {
    NONE {
        @Override
        IntFunction<Optional<Integer>> of(HfConfig config) {
            return layer -> Optional.empty();
        }
    },
    /** {@code sliding_window} holds for all layers. */
    ALL_LAYERS {
        @Override
        IntFunction<Optional<Integer>> of(HfConfig config) {
            Optional<Integer> window = size(config);
            return layer -> window;
        }
    },
    /** {@code sliding_window} holds for all layers where it is given (Phi3Config). */
    ALL_LAYERS_IF_GIVEN {
        @Override
        IntFunction<Optional<Integer>> of(HfConfig config) {
            Optional<Integer> window = config.optionalSize("sliding_window");
            return layer -> window;
        }
    },
    /**
     * By {@code layer_types}, or from layer {@code max_window_layers} on (0 for all of them); none unless {@code use_sliding_window}. Defaults
     * are those of Qwen2Config and Qwen3Config.
     */
    UPPER_LAYERS {
        @Override
        IntFunction<Optional<Integer>> of(HfConfig config) {
            Optional<Integer> window = config.flag(false, "use_sliding_window") ? size(config) : Optional.empty();
            int from = config.count("max_window_layers").orElse(28);
            return byType(config, window, layer -> layer >= from);
        }
    },
    /** {@code sliding_window} holds for all layers where {@code use_sliding_window} is true (Qwen3MoeConfig). */
    SWITCHED {
        @Override
        IntFunction<Optional<Integer>> of(HfConfig config) {
            Optional<Integer> window = config.flag(false, "use_sliding_window") ? size(config) : Optional.empty();
            return layer -> window;
        }
    },
    /**
     * By {@code layer_types}, or in layers 0, 2, 4 and so on below {@code max_window_layers}; none unless {@code use_sliding_window}
     * (Qwen2MoeConfig).
     */
    LOWER_EVEN_LAYERS {
        @Override
        IntFunction<Optional<Integer>> of(HfConfig config) {
            Optional<Integer> window = config.flag(false, "use_sliding_window") ? size(config) : Optional.empty();
            int below = config.count("max_window_layers").orElse(28);
            return byType(config, window, layer -> layer % 2 == 0 && layer < below);
        }
    },
    /** By {@code layer_types}, or in layers 0, 2, 4 and so on (Gemma2Config). */
    EVERY_OTHER_LAYER {
        @Override
        IntFunction<Optional<Integer>> of(HfConfig config) {
            return byType(config, size(config), layer -> layer % 2 == 0);
        }
    },
    /** By {@code layer_types}, or in all but each fourth, or {@code sliding_window_pattern}th, layer (Cohere2Config). */
    THREE_OF_FOUR {
        @Override
        IntFunction<Optional<Integer>> of(HfConfig config) {
            return allBut(config, 4);
        }
    },
    /** By {@code layer_types}, or in all but each sixth, or {@code sliding_window_pattern}th, layer (Gemma3TextConfig). */
    FIVE_OF_SIX {
        @Override
        IntFunction<Optional<Integer>> of(HfConfig config) {
            return allBut(config, 6);
        }
    },
    /**
     * By {@code layer_types}, or in the layers that have rotary positions: {@code attention_chunk_size} positions, which begin where the last ones end
     * (Llama4TextConfig).
     */
    CHUNKS {
        @Override
        IntFunction<Optional<Integer>> of(HfConfig config) {
            Optional<Integer> chunk = config.json().has("attention_chunk_size")
                    ? config.optionalSize("attention_chunk_size")
                    : Optional.of(2 * DEFAULT_SIZE);
            List<String> types = config.texts("layer_types");
            IntPredicate inChunks = types.isEmpty()
                    ? RotatedLayers.LISTED.rotate(config, layer -> false)
                    : isOfType(config, types, "chunked_attention");
            if (chunk.isEmpty()
                    && IntStream.range(0, config.layers("num_hidden_layers")).anyMatch(inChunks)) {
                throw config.unsupported("attention_chunk_size", "null", "a number of positions");
            }
            return layer -> chunk.filter(c -> inChunks.test(layer));
        }

        @Override
        String mask(Tokens tokens, long size) {
            return tokens.chunk(size);
        }
    },
    /**
     * By {@code layer_types}, or in the layers that have no rotary positions; none unless {@code use_sliding_window} and {@code sliding_window}
     * (SmolLM3Config).
     */
    WITHOUT_POSITIONS {
        @Override
        IntFunction<Optional<Integer>> of(HfConfig config) {
            Optional<Integer> window =
                    config.flag(false, "use_sliding_window") ? config.optionalSize("sliding_window") : Optional.empty();
            IntPredicate rotate = RotatedLayers.LISTED.rotate(config, layer -> false);
            return byType(config, window, layer -> !rotate.test(layer));
        }
    };

    /** Value of {@code sliding_window} where the key is absent (MistralConfig, Qwen2Config, Qwen3Config, Gemma2Config). */
    private static final int DEFAULT_SIZE = 4096;

    private static final String SLIDING = "sliding_attention";

    /** Positions that a layer sees, by its number; empty for all. */
    abstract IntFunction<Optional<Integer>> of(HfConfig config);

    /** Where the queries of a layer look that sees {@code size} positions, BOOL. */
    String mask(Tokens tokens, long size) {
        return tokens.window(size);
    }

    /** None where {@code sliding_window} is {@code null}. */
    private static Optional<Integer> size(HfConfig config) {
        return config.json().has("sliding_window") ? config.optionalSize("sliding_window") : Optional.of(DEFAULT_SIZE);
    }

    private static IntFunction<Optional<Integer>> allBut(HfConfig config, int fallback) {
        int pattern = config.sizeOr(fallback, "sliding_window_pattern", "_sliding_window_pattern");
        return byType(config, size(config), layer -> (layer + 1) % pattern != 0);
    }

    private static IntFunction<Optional<Integer>> byType(
            HfConfig config, Optional<Integer> window, IntPredicate fallback) {
        List<String> types = config.texts("layer_types");
        IntPredicate slides = types.isEmpty() ? fallback : isSliding(config, types);
        return layer -> window.filter(w -> slides.test(layer));
    }

    /**
     * Which layers see a window.
     *
     * @param types {@code layer_types}, one for each layer
     */
    static IntPredicate isSliding(HfConfig config, List<String> types) {
        return isOfType(config, types, SLIDING);
    }

    private static IntPredicate isOfType(HfConfig config, List<String> types, String wanted) {
        if (types.size() != config.layers("num_hidden_layers")) {
            throw config.malformed("layer_types names " + types.size() + " layers, num_hidden_layers is "
                    + config.layers("num_hidden_layers"));
        }
        for (String type : types) {
            if (!type.equals("full_attention") && !type.equals(wanted)) {
                throw config.unsupported("layer_types", type, "full_attention, " + wanted);
            }
        }
        return layer -> types.get(layer).equals(wanted);
    }
}
