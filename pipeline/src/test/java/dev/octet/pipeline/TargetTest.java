package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TargetTest {
    @Test
    void every_name_means_one_target() {
        List<String> labels = Target.ALL.stream().map(Target::label).toList();
        assertEquals(labels.size(), new HashSet<>(labels).size(), labels.toString());
        for (Target target : Target.ALL) {
            assertEquals(target, Target.named(target.label()).orElseThrow());
        }
        assertTrue(Target.named("elsewhere").isEmpty());
    }

    @Test
    void the_names_that_every_verb_takes_are_in_the_one_table() {
        assertTrue(Target.ALL.containsAll(Target.GRAPHS));
        assertTrue(Target.ALL.containsAll(Target.CHECKPOINTS));
        assertTrue(Target.ALL.containsAll(Target.CONVERTED));
        List<Target> exported = new ArrayList<>(Target.ALL);
        assertTrue(exported.remove(new Target.Gguf())); // a run becomes one by way of a folder
        assertTrue(exported.removeAll(List.of(Target.Training.values())));
        assertEquals(exported, Target.EXPORTED);
        assertEquals(
                Layouts.ALL.stream().map(Layout::name).toList(),
                Target.CHECKPOINTS.stream().map(Target::label).toList());
    }

    @Test
    void every_recipe_of_checkpoints_has_a_usual_layout() {
        for (Recipe recipe : Recipes.CHECKPOINT) {
            assertTrue(Target.CHECKPOINTS.contains(Target.usual(recipe)), recipe.name());
        }
        assertEquals("fp8", Target.usual(Recipes.FP8_BLOCK).label());
    }
}
