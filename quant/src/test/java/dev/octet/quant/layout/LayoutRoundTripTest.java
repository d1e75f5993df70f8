package dev.octet.quant.layout;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What a layout writes, recognisers read: every layout, recipe and choice. */
@DisplayNameGeneration(ReplaceUnderscores.class)
class LayoutRoundTripTest {
    /** Weights that all layouts take, those of one block, one row and one column of blocks among them. */
    private static final List<Shape> SHAPES = List.of(
            Shape.of(256, 384),
            Shape.of(128, 128),
            Shape.of(128, 512),
            Shape.of(640, 128),
            Shape.of(4096, 256),
            Shape.of(256, 256));

    record Case(Layout layout, Recipe recipe, LayoutOptions options) {
        @Override
        public String toString() {
            return layout.name() + " " + recipe.name() + " " + options;
        }
    }

    static Stream<Case> cases() {
        List<Case> cases = new ArrayList<>();
        for (Layout layout : Layouts.ALL) {
            for (Recipe recipe : Recipes.CHECKPOINT) {
                for (DType type : List.of(DType.F32, DType.BF16, DType.F16)) {
                    for (boolean power : new boolean[] {false, true}) {
                        for (boolean inputs : new boolean[] {false, true}) {
                            cases.add(new Case(layout, recipe, new LayoutOptions(type, power, inputs)));
                        }
                    }
                }
            }
        }
        return cases.stream();
    }

    static Stream<Case> supported() {
        return cases().filter(c -> c.layout().scheme(c.recipe(), c.options()).isPresent());
    }

    @ParameterizedTest
    @MethodSource("supported")
    void placed_weights_are_recognised_as_they_were_placed(Case c) {
        OperandSpec scheme = c.layout().scheme(c.recipe(), c.options()).orElseThrow();
        Map<String, TensorSpec> tensors = new LinkedHashMap<>();
        List<StoredWeight> placed = new ArrayList<>();
        TensorSpec norm = new TensorSpec("model.norm.weight", DType.BF16, Shape.of(256));
        tensors.put(norm.name(), norm);
        for (int i = 0; i < SHAPES.size(); i++) {
            assertEquals(
                    List.of(),
                    c.layout().refusal(scheme, SHAPES.get(i)).stream().toList());
            StoredWeight weight =
                    c.layout().place("model.layers." + i + ".mlp.up_proj.weight", SHAPES.get(i), scheme, c.options());
            placed.add(weight);
            weight.tensors().forEach(t -> tensors.put(t.name(), t));
        }
        ObjectNode config = JsonNodeFactory.instance.objectNode();
        Map<String, ObjectNode> files = c.layout()
                .configure(
                        config,
                        new LayoutContents(c.recipe(), c.options(), placed, List.of("lm_head"), AttentionScheme.NONE));

        StoredCheckpoint read =
                Layouts.recognise(Headers.of(tensors, Map.of(), config, files.get("hf_quant_config.json")));

        assertEquals(placed, List.copyOf(read.weights().values()));
        assertEquals(c.layout().name(), read.layout());
        assertEquals(c.recipe().name(), read.recipe());
        assertEquals(Map.of(norm.name(), norm), read.plain());
        assertEquals(Map.of(), read.others());
        assertEquals(List.of(), read.notes());
    }

    @ParameterizedTest
    @MethodSource("cases")
    void a_layout_has_either_a_scheme_or_a_reason_that_it_has_none(Case c) {
        assertTrue(c.layout().scheme(c.recipe(), c.options()).isPresent()
                != c.layout().unsupported(c.recipe(), c.options()).isPresent());
    }

    @Test
    void every_recipe_has_a_layout() {
        for (Recipe recipe : Recipes.CHECKPOINT) {
            assertTrue(Layouts.ALL.stream()
                    .anyMatch(l -> l.scheme(recipe, LayoutOptions.defaults()).isPresent()));
        }
    }
}
