/** A model in, a rewritten model out. */
module dev.octet.converter {
    requires transitive dev.octet.formats;
    requires transitive dev.octet.quant;
    requires com.fasterxml.jackson.databind;

    exports dev.octet.converter.inspect;

    // the command line prints these records as JSON
    opens dev.octet.converter.inspect to
            com.fasterxml.jackson.databind;
}
