"""The names of spines, classes of entities and levels in tables and charts."""

NAMES = {"conventional": "conventional", "aian": "AIAN", "optimized": "optimized"}

CLASSES = {
    "county": "Counties",
    "tract": "Tracts",
    "cbg": "Block groups",
    "place": "Places",
    "mcd": "MCDs",
    "aian": "AIAN areas",
    "pme": "Place/MCD entities",
    "gq": "GQ patterns",
    "sd": "School districts",
}

LEVELS = {
    "Block_Group": "Block group",
    "Tract_Group": "Tract group",
    "Tract_Subset_Group": "Tract subset group",
    "Tract_Subset": "Tract subset",
}

LEVEL_ORDER = (
    "US",
    "State",
    "County",
    "Prim",
    "Tract_Group",
    "Tract_Subset_Group",
    "Tract_Subset",
    "Tract",
    "Block_Group",
    "Block",
)
