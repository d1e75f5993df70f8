package dev.octet.quant.recipe;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.Layouts;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;

/** The recipes themselves, and the tables of docs/ that list them. */
@DisplayNameGeneration(ReplaceUnderscores.class)
class RecipesTest {
    /** What is asked for when no field is written, with the usual value where it is a single one. */
    private static final class Usual implements RecipeFields {
        private final Map<String, String> asked = new LinkedHashMap<>();

        @Override
        public boolean flag(String name, boolean usual) {
            asked.put(name, String.valueOf(usual));
            return usual;
        }

        @Override
        public long whole(String name, long usual, long min, long max) {
            asked.put(name, String.valueOf(usual));
            return usual;
        }

        @Override
        public double number(String name, double usual, double min, double max) {
            asked.put(name, String.valueOf((long) usual));
            return usual;
        }

        @Override
        public <T> T choice(String name, Map<String, T> choices, T usual) {
            choices.forEach((text, value) -> {
                if (value.equals(usual)) {
                    asked.put(name, text);
                }
            });
            return usual;
        }

        @Override
        public List<String> texts(String name) {
            asked.putIfAbsent(name, "[");
            return List.of();
        }

        @Override
        public InvalidOptionException error(String name, String what, String fix) {
            return new InvalidOptionException(what, name, fix);
        }
    }

    private static List<String> page(String name) throws IOException {
        return Files.readAllLines(Path.of(System.getProperty("octet.testdata")).resolveSibling("docs/" + name));
    }

    /** The cells of the row whose first cell names {@code recipe} in code letters, without those of other tables. */
    private static List<List<String>> rows(String page, String recipe) throws IOException {
        List<List<String>> rows = new ArrayList<>();
        boolean ofRecipes = false;
        for (String line : page(page)) {
            ofRecipes = line.startsWith("|") && (ofRecipes || line.startsWith("| recipe |"));
            List<String> cells = List.of(line.split("\\|", -1));
            if (ofRecipes && cells.get(1).contains("`" + recipe + "`")) {
                rows.add(cells);
            }
        }
        return rows;
    }

    @Test
    void every_recipe_for_checkpoints_has_a_row_that_says_which_layouts_take_it() throws IOException {
        List<String> header = page("checkpoints.md").stream()
                .filter(l -> l.startsWith("| recipe |"))
                .map(l -> List.of(l.replace("`", "").split(" *\\| *", -1)))
                .findFirst()
                .orElseThrow();
        List<String> wrong = new ArrayList<>();
        for (Recipe recipe : Recipes.CHECKPOINT) {
            List<List<String>> rows = rows("checkpoints.md", recipe.name()).stream()
                    .filter(r -> r.size() == header.size() && r.get(1).contains("`" + recipe.ownName() + "`"))
                    .toList();
            if (rows.size() != 1) {
                wrong.add("docs/checkpoints.md has " + rows.size() + " rows of " + recipe.name());
                continue;
            }
            for (Layout layout : Layouts.ALL) {
                LayoutOptions options = LayoutOptions.defaults();
                boolean takes = layout.scheme(recipe, options).isPresent()
                        || layout.scheme(recipe, options.withStaticInputs(true)).isPresent();
                String cell = rows.getFirst().get(header.indexOf(layout.name())).strip();
                if (takes != cell.startsWith("yes")) {
                    wrong.add("the row of " + recipe.name() + " says of " + layout.name() + ": '" + cell + "'");
                }
            }
        }
        assertEquals(List.of(), wrong);
    }

    @Test
    void every_recipe_for_training_has_a_row_with_its_fields_and_what_they_usually_are() throws IOException {
        List<String> wrong = new ArrayList<>();
        Recipes.TRAINING.forEach((name, reader) -> {
            Usual fields = new Usual();
            assertNotNull(reader.apply(fields));
            try {
                List<List<String>> rows = rows("training.md", name);
                if (rows.size() != 1) {
                    wrong.add("docs/training.md has " + rows.size() + " rows of " + name);
                    return;
                }
                String keys = rows.getFirst().get(2);
                fields.asked.forEach((field, usual) -> {
                    boolean only = keys.contains("`" + field + "`"); // taken, without effect
                    if (!only && !keys.contains("`" + field + ": " + usual)) {
                        wrong.add("the row of " + name + " lacks `" + field + ": " + usual + "`");
                    }
                });
            } catch (IOException e) {
                throw new AssertionError(e);
            }
        });
        assertEquals(List.of(), wrong);
    }

    @Test
    void fp8_says_what_it_means_for_each_kind_of_model() {
        assertEquals(
                "fp8 (= fp8-per-channel), fp8-per-tensor, fp8-weight-only, int8, int8-dynamic, int8-weight-only,"
                        + " int4-weight-only, int4-asymmetric, int4-int8",
                Recipes.names(Recipes.GRAPH));
        Map<String, Recipe> graph = Recipes.byName(Recipes.GRAPH);
        assertEquals(Recipes.FP8_PER_CHANNEL, graph.get("fp8-per-channel"));
        assertEquals("fp8", requireNonNull(graph.get("fp8")).name());
        assertEquals(
                Recipes.FP8_PER_CHANNEL.weight(),
                requireNonNull(graph.get("fp8")).weight());
        Map<String, Recipe> checkpoint = Recipes.byName(Recipes.CHECKPOINT);
        assertEquals(Recipes.FP8_PER_TENSOR, checkpoint.get("fp8-per-tensor"));
        assertEquals("fp8", requireNonNull(checkpoint.get("fp8")).name());
        assertEquals(
                Recipes.FP8_PER_TENSOR.weight(),
                requireNonNull(checkpoint.get("fp8")).weight());
    }

    @Test
    void no_two_recipes_of_a_kind_have_one_name() {
        for (List<Recipe> kind : List.of(Recipes.GRAPH, Recipes.CHECKPOINT)) {
            Set<String> names = new TreeSet<>();
            for (Recipe r : kind) {
                assertTrue(names.add(r.ownName()), r.ownName());
            }
        }
    }

    @Test
    void a_recipe_for_conversion_states_the_forward_product_alone() {
        assertNotNull(Recipes.FP8_BLOCK.operand(Product.FPROP, LinearTensor.INPUT));
        assertNull(Recipes.FP8_BLOCK.operand(Product.DGRAD, LinearTensor.WEIGHT));
        assertNull(Recipes.FP8_WEIGHT_ONLY.input());
    }

    @Test
    void scales_of_vectors_and_runs_lie_along_the_sums_of_each_product() {
        Map<Product, Granularity> vectors = new LinkedHashMap<>();
        Map<Product, Granularity> runs = new LinkedHashMap<>();
        for (Product p : Product.values()) {
            vectors.put(p, new TrainingRecipe.Rowwise().operand(p, p.right()).granularity());
            runs.put(
                    p,
                    requireNonNull(TrainingRecipe.Mxfp8.DEFAULT.operand(p, p.right()))
                            .granularity());
        }
        // W [out, in] in fprop, W again in dgrad, x [tokens, in] in wgrad
        assertEquals(
                Map.of(
                        Product.FPROP, new Granularity.PerChannel(-2),
                        Product.DGRAD, new Granularity.PerChannel(-1),
                        Product.WGRAD, new Granularity.PerChannel(-1)),
                vectors);
        assertEquals(
                Map.of(
                        Product.FPROP, new Granularity.Mx(-1, 32),
                        Product.DGRAD, new Granularity.Mx(-2, 32),
                        Product.WGRAD, new Granularity.Mx(-2, 32)),
                runs);
    }

    @Test
    void qat_computes_with_what_fp8_deploys() {
        TrainingRecipe qat = TrainingRecipe.Qat.DEFAULT;
        assertEquals(Recipes.FP8_PER_CHANNEL.weight().type(), qat.weight().type());
        assertEquals(
                Recipes.FP8_PER_CHANNEL.weight().granularity(), qat.weight().granularity());
        OperandSpec deployed = requireNonNull(Recipes.FP8_PER_CHANNEL.input());
        OperandSpec trained = requireNonNull(qat.input());
        assertEquals(deployed.type(), trained.type());
        assertEquals(deployed.granularity(), trained.granularity());
    }
}
