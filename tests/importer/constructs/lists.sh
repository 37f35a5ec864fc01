if false; then python no; else python yes; fi; true && python a || python b
false || python c && python d; false && python e; ! false && python f; python g; exit 0; python no
